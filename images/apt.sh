# Sourced by the scripts that install Debian packages at build time. Leaves nothing behind but the
# packages: no lists, no archives, no documentation.

# A mirror may be reached by https through a proxy with its own certificate authority. The bundle
# is there during the build only.
if [ -s /run/gdrcheck/ca.pem ]; then
    APT_CONFIG=$(mktemp)
    chmod 0644 "$APT_CONFIG"
    echo 'Acquire::https::CAInfo "/run/gdrcheck/ca.pem";' > "$APT_CONFIG"
    export APT_CONFIG
fi
export DEBIAN_FRONTEND=noninteractive

apt_update() {
    cat > /etc/dpkg/dpkg.cfg.d/gdrcheck-no-docs <<'END'
path-exclude=/usr/share/doc/*
path-include=/usr/share/doc/*/copyright
path-exclude=/usr/share/info/*
path-exclude=/usr/share/locale/*
path-exclude=/usr/share/man/*
END
    apt-get update --quiet
}

apt_install() {
    apt-get install --quiet --yes --no-install-recommends "$@"
}

# apt_without PACKAGE...: satisfies dependencies on packages that nothing here uses.
apt_without() {
    stub=$(mktemp -d)
    mkdir "$stub/DEBIAN"
    cat > "$stub/DEBIAN/control" <<END
Package: gdrcheck-without
Version: 1
Architecture: $(dpkg --print-architecture)
Multi-Arch: allowed
Maintainer: gdrcheck
Provides: $(echo "$*" | sed 's/ /, /g')
Description: stands in for packages that this image does without
END
    chmod 0755 "$stub"
    dpkg-deb --root-owner-group --build "$stub" "$stub.deb"
    dpkg --install "$stub.deb"
    rm -r "$stub" "$stub.deb"
}

apt_clean() {
    apt-get clean
    rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin /var/cache/debconf/*-old \
        /var/lib/dpkg/*-old /var/log/apt /var/log/dpkg.log /var/log/alternatives.log
    if [ -n "${APT_CONFIG:-}" ]; then rm -f "$APT_CONFIG"; fi
}
