// SPDX-License-Identifier: Apache-2.0

package rxepeer

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// MirrorEnv names the environment variable that overrides the Debian mirror.
const MirrorEnv = "SOFTROCE_VM_MIRROR"

const debianKeyring = "/usr/share/keyrings/debian-archive-keyring.gpg"

// debianMirror returns the mirror that this host's own apt sources use for Debian.
func debianMirror(ctx context.Context) (string, error) {
	if m := os.Getenv(MirrorEnv); m != "" {
		return m, nil
	}
	out, err := output(ctx, nil, "apt-get", "indextargets", "--format",
		"$(REPO_URI)|$(ORIGIN)|$(LABEL)|$(COMPONENT)", "Created-By: Packages")
	if err != nil {
		return "", err
	}
	if m := pickMirror(out); m != "" {
		return m, nil
	}
	return "", fmt.Errorf("rxepeer: apt's sources on this host name no Debian mirror; "+
		"set %s to the URL of one (the folder that holds dists/)", MirrorEnv)
}

// pickMirror takes lines of "URI|Origin|Label|Component" and returns the URI of the first
// Debian archive. Before the first apt-get update, apt knows no Origin; then a URI
// that ends in /debian has to do.
func pickMirror(lines string) string {
	guess := ""
	for line := range strings.Lines(lines) {
		f := strings.Split(strings.TrimSpace(line), "|")
		if len(f) != 4 || f[3] != "main" {
			continue
		}
		if f[1] == "Debian" && f[2] == "Debian" {
			return f[0]
		}
		if guess == "" && strings.HasPrefix(f[1], "$") && strings.HasSuffix(strings.TrimRight(f[0], "/"), "/debian") {
			guess = f[0]
		}
	}
	return guess
}

// apt is an apt of our own: a folder with its own sources, lists and empty dpkg
// status, so that the host's package state is neither used nor touched. Only
// what says how to reach the network is taken over from the host.
type apt struct{ dir string }

func newApt(ctx context.Context, dir, mirror, suite string) (*apt, error) {
	if _, err := os.Stat(debianKeyring); err != nil {
		return nil, fmt.Errorf("rxepeer: %s is missing, so packages cannot be verified: apt-get install debian-archive-keyring", debianKeyring)
	}
	acquire, err := output(ctx, nil, "apt-config", "dump", "Acquire")
	if err != nil {
		return nil, err
	}
	a := &apt{dir: dir}
	for _, d := range []string{"state/lists/partial", "cache"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			return nil, err
		}
	}
	files := map[string]string{
		"status":       "",
		"sources.list": fmt.Sprintf("deb [signed-by=%s] %s %s main\n", debianKeyring, mirror, suite),
		"apt.conf": networkSettings(acquire) + fmt.Sprintf(`
Dir::Etc::main "/dev/null";
Dir::Etc::parts "/dev/null";
Dir::Etc::preferences "/dev/null";
Dir::Etc::preferencesparts "/dev/null";
Dir::Etc::sourceparts "/dev/null";
Dir::Etc::sourcelist "%[1]s/sources.list";
Dir::State "%[1]s/state";
Dir::State::status "%[1]s/status";
Dir::Cache "%[1]s/cache";
APT::Sandbox::User "root";
APT::Architecture "amd64";
APT::Architectures { "amd64"; };
APT::Install-Recommends "false";
Acquire::Languages "none";
Acquire::Retries "3";
`, dir),
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return nil, err
		}
	}
	if _, err := output(ctx, a.env(), "apt-get", "-q", "update"); err != nil {
		return nil, err
	}
	return a, nil
}

// networkSettings keeps from a dump of apt's Acquire tree what says how to reach a
// mirror: proxies, and TLS settings of https.
func networkSettings(dump string) string {
	var keep strings.Builder
	for line := range strings.Lines(dump) {
		key, _, _ := strings.Cut(strings.ToLower(line), " ")
		if strings.Contains(key, "::proxy") || strings.HasPrefix(key, "acquire::https::") {
			keep.WriteString(line)
		}
	}
	return keep.String()
}

func (a *apt) env() []string {
	return append(os.Environ(), "APT_CONFIG="+filepath.Join(a.dir, "apt.conf"), "LC_ALL=C", "DEBIAN_FRONTEND=noninteractive")
}

// depends returns the only package that metapackage depends on.
func (a *apt) depends(ctx context.Context, metapackage string) (string, error) {
	out, err := output(ctx, a.env(), "apt-cache", "depends", metapackage)
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(out) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "Depends: "); ok {
			return name, nil
		}
	}
	return "", fmt.Errorf("rxepeer: package %s depends on nothing, expected a kernel:\n%s", metapackage, out)
}

// fetch downloads packages with their dependencies and returns the paths of the .deb files,
// in a folder of that name.
func (a *apt) fetch(ctx context.Context, name string, packages ...string) ([]string, error) {
	archives, err := a.archives(name)
	if err != nil {
		return nil, err
	}
	args := append([]string{"-q", "-y", "-o", "Dir::Cache::archives=" + archives, "--download-only", "install"}, packages...)
	if _, err := output(ctx, a.env(), "apt-get", args...); err != nil {
		return nil, err
	}
	return filepath.Glob(filepath.Join(archives, "*.deb"))
}

// fetchAlone downloads one package without its dependencies.
func (a *apt) fetchAlone(ctx context.Context, pkg string) (string, error) {
	archives, err := a.archives(pkg)
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, "apt-get", "-q", "download", pkg)
	cmd.Dir, cmd.Env = archives, a.env()
	if _, err := outputOf(cmd); err != nil {
		return "", err
	}
	debs, err := filepath.Glob(filepath.Join(archives, "*.deb"))
	if err == nil && len(debs) != 1 {
		err = fmt.Errorf("rxepeer: apt-get download %s gave %d files", pkg, len(debs))
	}
	if err != nil {
		return "", err
	}
	return debs[0], nil
}

func (a *apt) archives(name string) (string, error) {
	dir := filepath.Join(a.dir, "archives", name)
	return dir, os.MkdirAll(filepath.Join(dir, "partial"), 0o755)
}

// output runs a program and returns its stdout; its error holds what it printed.
func output(ctx context.Context, env []string, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = env
	return outputOf(cmd)
}

func outputOf(cmd *exec.Cmd) (string, error) {
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("rxepeer: %s: %w\n%s%s", strings.Join(cmd.Args, " "), err,
			tail(stdout.Bytes(), 2000), tail(stderr.Bytes(), 2000))
	}
	return stdout.String(), nil
}

func tail(b []byte, n int) []byte {
	if len(b) > n {
		return append([]byte("..."), b[len(b)-n:]...)
	}
	return b
}
