# bench as an image: dependencies pinned by hash, a non-root user, nothing written outside the volumes.
# BASE_IMAGE lets it be built from a local base, the PIP_ arguments from another index or a folder of wheels.
ARG BASE_IMAGE=python:3.12-slim-bookworm
FROM ${BASE_IMAGE} AS build
ARG PIP_INDEX_URL
ARG PIP_EXTRA_INDEX_URL
ARG PIP_TRUSTED_HOST
ARG PIP_CERT
ARG PIP_FIND_LINKS
ARG PIP_NO_INDEX
WORKDIR /src
COPY requirements.lock ./
RUN python3 -m venv /opt/bench \
 && /opt/bench/bin/python -m pip install --no-cache-dir --disable-pip-version-check --require-hashes -r requirements.lock
COPY pyproject.toml hatch_build.py README.md LICENSE ./
COPY bench bench
COPY configs configs
COPY datasets datasets
COPY docs/verify.html docs/verify.html
RUN /opt/bench/bin/python -m pip install --no-cache-dir --disable-pip-version-check --no-deps --no-build-isolation .
# e.g. distributed==2025.1.0 for the cluster services of compose.yaml
ARG EXTRA_REQUIREMENTS=
RUN if [ -n "$EXTRA_REQUIREMENTS" ]; then \
      /opt/bench/bin/python -m pip install --no-cache-dir --disable-pip-version-check $EXTRA_REQUIREMENTS; fi

FROM ${BASE_IMAGE}
ARG GIT_COMMIT=
ARG GIT_TAG=
ARG IMAGE=
ENV MEMORYBENCH_GIT_COMMIT=${GIT_COMMIT} MEMORYBENCH_GIT_TAG=${GIT_TAG} MEMORYBENCH_IMAGE=${IMAGE} \
    PATH=/opt/bench/bin:${PATH} PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
RUN useradd --uid 10001 --create-home bench \
 && install -d -o bench -g bench /workspace /workspace/checkpoints /workspace/results /workspace/datasets /workspace/token
COPY --from=build /opt/bench /opt/bench
USER bench
WORKDIR /workspace
ENTRYPOINT ["bench"]
CMD ["run"]
