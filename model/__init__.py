"""The core: network, decoding and training; knows no HTTP and no asyncio.

`config` is the shape of a network, `decode_request` what a decoder is asked and answers.
"""
