#!/bin/sh
# Installs the programs that some tests drive, where they are missing and we may: a browser for the
# pages, a PostgreSQL server, Java for Spark. Never fails: tests skip by name what is not there.
missing=""
command -v chromium >/dev/null || missing="$missing chromium"
ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 || missing="$missing postgresql"
command -v java >/dev/null || missing="$missing default-jre-headless"
[ -z "$missing" ] && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "Installing for the tests:$missing"
    apt-get update -qq >/dev/null 2>&1
    # starting servers by themselves is for the tests to do, not for the packages
    for package in $missing; do
        DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 \
            apt-get install -y -qq --no-install-recommends "$package" >/dev/null 2>&1 ||
            echo "Cannot install $package: the tests that need it will be skipped."
    done
else
    echo "Missing:$missing. The tests that need them will be skipped."
fi
exit 0
