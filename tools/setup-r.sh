# R and its packages. Sourced by setup.sh.

# Everything from Debian that the package, its tests, its vignette and its linter use.
APT_PACKAGES=(
  r-base-core r-base-dev pandoc
  r-cran-cli r-cran-generics r-cran-ggplot2 r-cran-here r-cran-jsonlite r-cran-knitr
  r-cran-lintr r-cran-matrix r-cran-png r-cran-rappdirs r-cran-rcpp r-cran-rcpptoml r-cran-rlang
  r-cran-rmarkdown r-cran-roxygen2 r-cran-scales r-cran-testthat r-cran-tibble r-cran-withr
)
# The same as R knows them; used where apt is not ours to run. reticulate is looked for apart.
R_PACKAGES=(cli generics ggplot2 jsonlite knitr lintr rlang rmarkdown scales testthat tibble withr)

setup_r() {
  if is_debian_root; then
    install_apt_packages
  else
    need_r_found
  fi
  setup_reticulate
}

install_apt_packages() {
  local missing=() name
  for name in "${APT_PACKAGES[@]}"; do
    dpkg-query -W -f='${db:Status-Abbrev}' "$name" 2>/dev/null | grep -q '^ii' || missing+=("$name")
  done
  if [ "${#missing[@]}" = 0 ]; then
    say "R and its packages are installed"
    return
  fi
  say "installing with apt: ${missing[*]}"
  logged apt-update apt-get update
  DEBIAN_FRONTEND=noninteractive logged apt-install \
    apt-get install --yes --no-install-recommends "${missing[@]}"
}

need_r_found() {
  have Rscript || fail "R is not installed" \
    "install R (4.2 or later) with your system's package manager, then run this again;" \
    "as root on Debian this script installs it by itself"
  local missing
  missing=$(R_LIBS="$RLIB" Rscript --vanilla -e '
    wanted <- commandArgs(TRUE)
    cat(wanted[!vapply(wanted, requireNamespace, NA, quietly = TRUE)])' "${R_PACKAGES[@]}")
  [ -z "$missing" ] || fail "these R packages are missing: $missing" \
    "install them in R with install.packages(c($(quoted_list "$missing")))"
}

quoted_list() { printf '%s' "$1" | sed 's/[^ ][^ ]*/"&"/g; s/ /, /g'; }

# TRUE when the R that will be used sees a reticulate that is new enough.
reticulate_is_current() {
  R_LIBS="$RLIB" Rscript --vanilla -e '
    v <- tryCatch(packageVersion("reticulate"), error = function(e) "0")
    quit(status = if (v >= commandArgs(TRUE)[[1]]) 0 else 1)' "$RETICULATE_MINIMUM" 2>/dev/null
}

setup_reticulate() {
  if reticulate_is_current; then
    say "reticulate is current"
    return
  fi
  is_debian_root || fail "R needs reticulate $RETICULATE_MINIMUM or later and does not find it" \
    "install it in R with install.packages(\"reticulate\")"
  if debian_offers_current_reticulate; then
    DEBIAN_FRONTEND=noninteractive logged apt-reticulate \
      apt-get install --yes --no-install-recommends r-cran-reticulate
  else
    build_reticulate
  fi
  reticulate_is_current || fail "reticulate was installed, but R does not find it in .rlib/"
}

debian_offers_current_reticulate() {
  local version
  version=$(apt-cache policy r-cran-reticulate | awk '/Candidate:/ {print $2}')
  [ -n "$version" ] && [ "$version" != "(none)" ] &&
    dpkg --compare-versions "$version" ge "$RETICULATE_MINIMUM"
}

# Debian 12's reticulate refuses NumPy 2. Debian 13 has a good one, as source too: fetch only that,
# through an apt state of our own, from the mirror this host already uses. Nothing under /etc/apt
# or /var/lib/apt is touched.
build_reticulate() {
  local apt="$STATE/apt" mirror keyring=/usr/share/keyrings/debian-archive-keyring.gpg
  mirror=$(apt-get indextargets --format '$(ORIGIN)|$(LABEL)|$(REPO_URI)' 'Created-By: Packages' |
    awk -F'|' '$1 == "Debian" && $2 == "Debian" {print $3; exit}')
  [ -n "$mirror" ] || fail "apt knows no Debian mirror to fetch reticulate's source from" \
    "install reticulate $RETICULATE_MINIMUM or later for R yourself, then run this again"
  [ -f "$keyring" ] || keyring=$(ls /etc/apt/trusted.gpg.d/debian-archive-trixie-stable* | head -1)
  say "building reticulate from Debian 13's source (a minute or so)"
  rm -rf "$apt"
  mkdir -p "$apt/lists/partial" "$apt/archives/partial" "$apt/source"
  printf 'deb-src [signed-by=%s] %s trixie main\n' "$keyring" "$mirror" >"$apt/sources.list"
  logged reticulate-lists private_apt update
  (cd "$apt/source" && logged reticulate-source private_apt source --tar-only r-cran-reticulate)
  tar -C "$apt/source" -xf "$apt"/source/*.orig.tar.*
  logged reticulate-build R CMD INSTALL --no-docs --no-test-load --library="$RLIB" \
    "$(dirname "$(ls "$apt"/source/*/DESCRIPTION)")"
  rm -rf "$apt"
}

private_apt() {
  local apt="$STATE/apt"
  apt-get -o Dir::Etc::sourcelist="$apt/sources.list" -o Dir::Etc::sourceparts=/dev/null \
    -o Dir::State::lists="$apt/lists" -o Dir::Cache="$apt" -o Dir::Cache::archives="$apt/archives" \
    -o APT::Sandbox::User=root -o APT::Get::List-Cleanup=0 "$@"
}
