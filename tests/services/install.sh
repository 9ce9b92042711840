#!/usr/bin/env bash
# Installs the servers and tools that some tests use, from Debian's packages. What cannot be installed is left out:
# the tests that need it are skipped and say so.
set -uo pipefail

wanted=()
compgen -G '/usr/lib/postgresql/*/bin/postgres' >/dev/null || command -v postgres >/dev/null || wanted+=(postgresql)
command -v promtool >/dev/null || wanted+=(prometheus)
command -v chromium >/dev/null || command -v google-chrome >/dev/null || wanted+=(chromium)
[[ ${#wanted[@]} -eq 0 ]] && exit 0

if [[ $EUID -ne 0 ]] || ! command -v apt-get >/dev/null; then
  echo "tests: not installed here, and left out: ${wanted[*]} (root with apt-get could install them)" >&2
  exit 0
fi
echo "installing for the tests: ${wanted[*]}"
export DEBIAN_FRONTEND=noninteractive
get() { apt-get install -y -qq --no-install-recommends "$@" >/dev/null 2>&1; }
apt-get update -qq >/dev/null 2>&1
for package in "${wanted[@]}"; do
  if [[ $package == postgresql ]]; then
    # the tests make servers of their own: none of the system's is wanted
    get postgresql-common && sed -i 's/^#\?create_main_cluster.*/create_main_cluster = false/' \
      /etc/postgresql-common/createcluster.conf
  fi
  get "$package" || echo "tests: '$package' could not be installed; its tests are left out" >&2
done
exit 0
