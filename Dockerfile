# syntax=docker/dockerfile:1
# A working image, kept simple. Two stages: pip and the build backend stay behind in the first.

FROM python:3.13-slim AS build
WORKDIR /src
COPY requirements.lock requirements-build.lock ./
RUN python -m venv /app \
 && /app/bin/python -m pip install --no-cache-dir --require-hashes --no-deps -r requirements.lock \
 && python -m venv /build \
 && /build/bin/python -m pip install --no-cache-dir --require-hashes --no-deps -r requirements-build.lock
COPY pyproject.toml README.md CHANGELOG.md LICENSE ./
COPY policy policy
COPY proxy proxy
COPY storage storage
COPY telemetry telemetry
RUN /build/bin/python -m hatchling build -t wheel -d /dist \
 && /app/bin/python -m pip install --no-cache-dir --no-deps --no-index /dist/*.whl \
 && /app/bin/python -m pip uninstall --yes pip

FROM python:3.13-slim
# A uid of its own: an agent in the same container or pod must run under another one.
RUN useradd --system --uid 10002 --home-dir /var/lib/mnemogate --create-home mnemogate \
 && install -d -m 0700 -o mnemogate -g mnemogate /var/lib/mnemogate/state /var/lib/mnemogate/checkpoint
COPY --from=build /app /app
USER 10002
WORKDIR /
ENV PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    MNEMOGATE_STATE=/var/lib/mnemogate/state \
    MNEMOGATE_CHECKPOINT=/var/lib/mnemogate/checkpoint/mnemogate.txt \
    MNEMOGATE_LISTEN=0.0.0.0:7077
# The admin listener stays on the container's own loopback, where the health check asks.
VOLUME ["/var/lib/mnemogate/state", "/var/lib/mnemogate/checkpoint"]
EXPOSE 7077
HEALTHCHECK --interval=10s --timeout=2s --start-period=20s CMD ["/app/bin/python", "-c", \
  "import urllib.request as u; u.urlopen('http://127.0.0.1:7078/healthz', timeout=1)"]
ENTRYPOINT ["/app/bin/mnemogate"]
CMD ["run"]
