"""The online service: HTTP and asyncio; never imports torch."""
