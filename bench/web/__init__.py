"""The web server of bench: ``bench explore`` shows the pages of a workspace, and ``bench serve`` also starts runs.

The pages show the documents that ``/api/v1`` returns as JSON. ``app`` opens the site, and ``security`` checks each
request. Importing this package is fast::

    from bench.web.app import Settings, open_site

    async with open_site(Settings(workspace=Path("."))) as site:
        site.url
"""
