# The image that runs the checks on a node: OFED user space, CUDA user space, the project.
# Built by images/build.py (`make image`), which fills in the labels; plain `podman build .` works too.
# Layers go from what changes seldom to what changes often: a change of code rebuilds the last one.
ARG BASE_IMAGE=debian:trixie-slim

# The Python packages. pip stays behind in this stage.
FROM ${BASE_IMAGE} AS wheels
COPY images/apt.sh images/wheels.sh /opt/gdrcheck/build/
COPY requirements/image.txt /opt/gdrcheck/build/requirements.txt
RUN --mount=type=secret,id=ca_bundle,target=/run/gdrcheck/ca.pem,mode=0444 \
    --mount=type=secret,id=pip_conf,target=/run/gdrcheck/pip.conf \
    sh /opt/gdrcheck/build/wheels.sh /wheels

# perftest that can use GPU memory. The compiler stays behind in this stage.
FROM wheels AS perftest
COPY images/perftest.sh requirements/cuda-headers.txt /opt/gdrcheck/build/
RUN --mount=type=secret,id=ca_bundle,target=/run/gdrcheck/ca.pem,mode=0444 \
    --mount=type=secret,id=pip_conf,target=/run/gdrcheck/pip.conf \
    sh /opt/gdrcheck/build/perftest.sh /perftest

# All but the project's own code.
FROM ${BASE_IMAGE} AS runtime
# inbox: the distribution's rdma-core. doca: DOCA-OFED from the source named by DOCA_SOURCE.
ARG OFED=inbox
ARG DOCA_SOURCE=
COPY images/apt.sh images/record_versions.py /opt/gdrcheck/build/
COPY images/ofed/ /opt/gdrcheck/build/ofed/
RUN --mount=type=secret,id=ca_bundle,target=/run/gdrcheck/ca.pem,mode=0444 \
    OFED="${OFED}" DOCA_SOURCE="${DOCA_SOURCE}" sh /opt/gdrcheck/build/ofed/install.sh
# Debian's Python looks here before it looks at the distribution's own packages.
COPY --from=wheels /wheels/ /usr/local/lib/python3.13/dist-packages/
COPY --from=perftest /perftest/ /opt/gdrcheck/perftest/
# Also proves that everything imports and that the versions are new enough.
RUN /usr/bin/python3 /opt/gdrcheck/build/record_versions.py "${OFED}" /opt/gdrcheck/versions.json
ENV HOME=/tmp LANG=C.UTF-8
WORKDIR /opt/gdrcheck
ENTRYPOINT ["/usr/bin/python3", "-m", "gdrcheck"]
CMD ["--help"]

FROM runtime AS image
COPY pyproject.toml /opt/gdrcheck/
COPY checks/ /opt/gdrcheck/checks/
COPY gdrcheck/ /opt/gdrcheck/gdrcheck/
# Compiled here, since the root file system is read-only where this runs. World-readable, since
# root without DAC_OVERRIDE and any other user must be able to read it.
RUN chmod -R a+rX /opt/gdrcheck \
    && /usr/bin/python3 -m compileall -q --invalidation-mode unchecked-hash \
        /opt/gdrcheck/gdrcheck /opt/gdrcheck/checks
# Known to images/build.py only; APT_VERSIONS comes out of the runtime stage.
ARG VERSION=unknown
ARG REVISION=unknown
ARG APT_VERSIONS=unknown
LABEL org.opencontainers.image.title="gdrcheck" \
    org.opencontainers.image.description="Checks of GPUDirect RDMA on a node and in pairs" \
    org.opencontainers.image.version="${VERSION}" \
    org.opencontainers.image.revision="${REVISION}" \
    org.opencontainers.image.licenses="Apache-2.0" \
    org.gdrcheck.apt-versions="${APT_VERSIONS}"
