"""The web pages and the service: ``bench explore`` shows a workspace, ``bench serve`` also starts runs.

All data comes from journals and files. The pages show the documents that ``/api/v1`` returns as JSON. Modules: ``app``
opens the site, ``security`` checks each request, ``documents`` creates the documents, ``api`` and ``pages`` send them,
``service`` executes runs. Importing this package is fast::

    from bench.web.app import Settings, open_site

    async with open_site(Settings(workspace=Path("."))) as site:
        site.url
"""
