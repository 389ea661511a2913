"""The online service: HTTP and asyncio; never imports torch.

`main` puts the application together, and `settings` has every setting. `errors` has the service's errors
with their texts, to which `http.errors` adds codes and statuses. A setting that concerns one request is read
where its subject is handled. The page's texts in every language are in `web/words.js`.
"""
