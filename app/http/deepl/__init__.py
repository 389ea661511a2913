"""The same service in the words of DeepL's API, versions 2 and 3, for programs written for that one."""
