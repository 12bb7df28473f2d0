"""The web pages and the service: ``bench explore`` shows a workspace, ``bench serve`` also runs.

Everything shown comes from journals and files; the pages are made of the same documents as the JSON of ``/api/v1``.
Where things are: ``app`` puts the site together, ``security`` decides who may ask what, ``run_documents`` and its
neighbors make documents, ``api`` and ``pages`` hand them out, ``service`` runs. Importing this package is cheap::

    from bench.web.app import Settings, open_site

    async with open_site(Settings(workspace=Path("."))) as site:
        site.url
"""
