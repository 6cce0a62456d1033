// SPDX-License-Identifier: Apache-2.0

package seal_test

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/rocev2/seal"
)

const (
	keyA = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAE="
	keyB = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAI="
)

// A generated key is read again, is not overwritten, and is refused if others may read it.
func TestIdentity(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	made, err := seal.GenerateFile(path)
	if err != nil {
		t.Fatal(err)
	}
	read, err := seal.ReadIdentity(path)
	if err != nil || read.Public() != made.Public() {
		t.Fatalf("%v: another key", err)
	}
	if _, err := seal.GenerateFile(path); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a second time: %v", err)
	}
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	if _, err := seal.ReadIdentity(path); !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("with mode 0640: %v", err)
	}
	for _, text := range []string{"", "short", keyA + keyA, strings.Repeat("A", 1<<16)} {
		bad := filepath.Join(t.TempDir(), "bad")
		if err := os.WriteFile(bad, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := seal.ReadIdentity(bad); err == nil || !strings.Contains(err.Error(), "32 bytes") {
			t.Errorf("%.20q: %v", text, err)
		}
	}
}

// A file that cannot be written is not left behind: Generate would not overwrite it.
func TestGenerateWithoutRoom(t *testing.T) {
	signal.Ignore(unix.SIGXFSZ)
	defer signal.Reset(unix.SIGXFSZ)
	var was unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &was); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "key")
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 10, Max: was.Max}); err != nil {
		t.Fatal(err)
	}
	id, err := seal.GenerateFile(path)
	if e := unix.Setrlimit(unix.RLIMIT_FSIZE, &was); e != nil {
		t.Fatal(e)
	}
	if id != nil || !errors.Is(err, unix.EFBIG) {
		t.Errorf("%v, %v", id, err)
	}
	if _, err := seal.GenerateFile(path); err != nil {
		t.Errorf("with room: %v", err)
	}
}

// A peer is found by address and by prefix, IPv4 also as a v4-mapped address.
func TestPeers(t *testing.T) {
	a, _ := seal.ParsePublicKey(keyA)
	b, _ := seal.ParsePublicKey(keyB)
	p, err := seal.ParsePeers(strings.NewReader("# hosts\n\n10.0.0.2 " + keyA + " # one\n10.0.0.0/24\t" + keyB + "\nfe80::1 " + keyA + "\n::ffff:10.7.0.0/112 " + keyB + "\n"))
	if err != nil {
		t.Fatal(err)
	}
	for addr, want := range map[string][]seal.PublicKey{
		"10.0.0.2": {a, b}, "::ffff:10.0.0.2": {a, b}, "10.0.0.3": {b}, "10.0.1.2": nil, "fe80::1%eth0": {a}, "fe80::2": nil,
		"10.7.1.2": {b},
	} {
		if got := p.Of(netip.MustParseAddr(addr)); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: %v, want %v", addr, got, want)
		}
	}
	for text, want := range map[string]string{
		"10.0.0.2": "line 1: 1 words", "\nhost " + keyA: "line 2", "10.0.0.0/99 " + keyA: "line 1", "10.0.0.2 key": "32 bytes in base64",
	} {
		if _, err := seal.ParsePeers(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v; want %q", text, err, want)
		}
	}
}

// Who can write the file of peers decides who is a peer: a file that all users may write is refused.
func TestPeersThatAllMayWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "peers")
	if err := os.WriteFile(path, []byte("10.0.0.2 "+keyA), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := seal.ReadPeers(path); err != nil {
		t.Error(err)
	}
	if err := os.Chmod(path, 0o646); err != nil {
		t.Fatal(err)
	}
	if _, err := seal.ReadPeers(path); !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), "chmod o-w") {
		t.Errorf("with mode 0646: %v", err)
	}
}

func Example_files() {
	peers, err := seal.ParsePeers(strings.NewReader("10.0.0.2 " + keyA))
	fmt.Println(err, peers.Of(netip.MustParseAddr("10.0.0.2")))
	// Output: <nil> [AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAE=]
}
