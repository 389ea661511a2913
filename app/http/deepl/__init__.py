"""The same service in the words of DeepL's API, version 2, for programs that were written for that one."""
