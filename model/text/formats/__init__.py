"""Files whose text is translated and whose layout stays: plain text, Markdown, HTML, subtitles, archives."""
