"""Files whose text is translated and whose layout stays: plain text, Markdown, HTML, subtitles, archives.

A new format is a module with its reader, and a suffix in `formats`.
"""
