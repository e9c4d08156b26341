# Two stages: pip and the build backend stay behind in the first.
#
# The base is named by its tag, not by a digest. A digest would have to be looked up in a registry,
# and this file is built and tested without one. Pin it where you build:
#   docker build --build-arg BASE=python:3.13-slim@sha256:... .
ARG BASE=python:3.13-slim

FROM ${BASE} AS build
WORKDIR /src
COPY requirements.lock requirements-*.lock ./
# One of the extras minilm, postgres and sentry, whose packages a shard, for example, needs as well.
ARG EXTRA=
RUN python3 -m venv /app \
 && /app/bin/python -m pip install --no-cache-dir --require-hashes --no-deps -r requirements.lock \
      ${EXTRA:+-r requirements-$EXTRA.lock} \
 && python3 -m venv /build \
 && /build/bin/python -m pip install --no-cache-dir --require-hashes --no-deps -r requirements-build.lock
COPY pyproject.toml README.md CHANGELOG.md LICENSE ./
COPY policy policy
COPY proxy proxy
COPY storage storage
COPY telemetry telemetry
RUN /build/bin/python -m hatchling build -t wheel -d /dist \
 && /app/bin/python -m pip install --no-cache-dir --no-deps --no-index /dist/*.whl \
 && /app/bin/python -m pip uninstall --yes pip \
 && /app/bin/python -m compileall -q /app/lib

FROM ${BASE}
LABEL org.opencontainers.image.title="Mnemogate" \
      org.opencontainers.image.description="A sidecar in front of an unmodified agent's memory" \
      org.opencontainers.image.licenses="Apache-2.0"
# A uid of its own: an agent in the same container or pod must run under another one.
RUN groupadd --gid 10001 mnemogate \
 && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /nonexistent \
      --shell /usr/sbin/nologin mnemogate \
 && install -d -m 0700 -o mnemogate -g mnemogate \
      /var/lib/mnemogate /var/lib/mnemogate-checkpoint
COPY --from=build /app /app
USER 10001:10001
WORKDIR /
# The state is a directory inside its volume: an orchestrator owns the volume's root and widens it.
ENV PATH=/app/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONSAFEPATH=1 \
    PYTHONUNBUFFERED=1 \
    MNEMOGATE_STATE=/var/lib/mnemogate/state \
    MNEMOGATE_CHECKPOINT=/var/lib/mnemogate-checkpoint/mnemogate.txt
# Two volumes, best on two disks: whoever puts an older store back must not get the copy as well.
VOLUME ["/var/lib/mnemogate", "/var/lib/mnemogate-checkpoint"]
EXPOSE 7077
STOPSIGNAL SIGTERM
# The admin listener stays on the container's own loopback; the check asks there.
HEALTHCHECK --interval=10s --timeout=3s --start-period=30s --retries=3 CMD ["/app/bin/python", "-I", "-c", \
  "import urllib.request as r; r.build_opener(r.ProxyHandler({})).open('http://127.0.0.1:7078/healthz', timeout=2)"]
ENTRYPOINT ["/app/bin/mnemogate"]
# From outside a container its loopback cannot be reached. Other names than localhost go into
# MNEMOGATE_ALLOWED_HOSTS. In a pod, beside its agent, it takes ["run"]: loopback is enough there.
CMD ["run", "--listen", "0.0.0.0:7077"]
