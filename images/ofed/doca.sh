# DOCA-OFED in place of the distribution's rdma-core. DOCA_SOURCE names where it comes from:
#   the URL of a flat apt repository (as NVIDIA publishes one per release and distribution),
#   the URL of a doca-host .deb, or
#   the name of a doca-host .deb put into images/ofed/packages/ (not committed).
# The .deb sets up its own repository and key. NOT RUN by the project: see docs/evidence.md.
ofed_prepare() {
    case "${DOCA_SOURCE:-}" in
    "")
        echo "OFED=doca needs DOCA_SOURCE: a repository URL, a .deb URL, or a file name in" \
            "images/ofed/packages/" >&2
        return 1
        ;;
    http://*.deb | https://*.deb)
        /usr/lib/apt/apt-helper download-file "$DOCA_SOURCE" /tmp/doca-host.deb
        dpkg --install /tmp/doca-host.deb
        rm /tmp/doca-host.deb
        ;;
    http://* | https://*)
        /usr/lib/apt/apt-helper download-file \
            "${DOCA_SOURCE%/}/GPG-KEY-Mellanox.pub" /usr/share/keyrings/doca.asc
        echo "deb [signed-by=/usr/share/keyrings/doca.asc] ${DOCA_SOURCE%/}/ ./" \
            > /etc/apt/sources.list.d/doca.list
        ;;
    *)
        dpkg --install "$build/ofed/packages/$DOCA_SOURCE"
        ;;
    esac
    # Both sources offer packages of the same names; a higher version number need not be DOCA's.
    cat > /etc/apt/preferences.d/doca <<'END'
Package: *
Pin: release o=NVIDIA*
Pin-Priority: 1001

Package: *
Pin: release o=Mellanox*
Pin-Priority: 1001
END
    apt-get update --quiet
    apt_install doca-ofed-userspace
}
