// SPDX-License-Identifier: Apache-2.0

package seal

// This file has the files of encryption: the private key of a host, and the public keys of its
// peers (docs/program/encryption.md).
//
// The file of a private key has one line: 32 bytes in base64. Only its owner may read it.
//
// The file of peers has a line for each key, with an address or a prefix in front; # begins a comment:
//
//	10.0.0.2       Qw3f...=   # one host
//	10.1.0.0/16    8zTk...=   # a host that may have any of these addresses

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"strings"
)

// GenerateFile makes a key pair and writes its private key to a new file. It does not overwrite a file:
// the error is fs.ErrExist then.
func GenerateFile(path string) (*Identity, error) {
	id, err := NewIdentity()
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	_, err = fmt.Fprintln(f, base64.StdEncoding.EncodeToString(id.Private()))
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return nil, errors.Join(err, os.Remove(path)) // a part of a key is of no use
	}
	return id, nil
}

// maxKeyFile is more than a file with a private key has, in bytes.
const maxKeyFile = 4096

// ReadIdentity reads the file of a private key. A file that others than its owner may read or write is refused.
func ReadIdentity(path string) (*Identity, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if others := info.Mode().Perm() & 0o077; others != 0 {
		return nil, fmt.Errorf("%s: others may use this private key (mode %#o): `chmod 600 %s`, and make another key if somebody may have read it: %w",
			path, info.Mode().Perm(), path, fs.ErrPermission)
	}
	b, err := io.ReadAll(io.LimitReader(f, maxKeyFile))
	if err != nil {
		return nil, err
	}
	private, err := base64.StdEncoding.DecodeString(string(bytes.TrimSpace(b)))
	if err != nil || len(private) != 32 {
		return nil, fmt.Errorf("%s: no private key: want 32 bytes in base64, 44 characters; `softroce-xdp key generate` makes one", path)
	}
	return IdentityOf(private)
}

// Peers are the public keys of other hosts.
type Peers struct {
	list []peer
}

type peer struct {
	at  netip.Prefix
	key PublicKey
}

// ReadPeers reads the file of peers. A file that all users may write is refused.
func ReadPeers(path string) (*Peers, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.Mode().Perm()&0o002 != 0 {
		return nil, fmt.Errorf("%s: all users may write this file, and so decide who is a peer (mode %#o): look at its keys, and `chmod o-w %s`: %w",
			path, info.Mode().Perm(), path, fs.ErrPermission)
	}
	p, err := ParsePeers(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return p, nil
}

// ParsePeers reads what a file of peers has.
func ParsePeers(r io.Reader) (*Peers, error) {
	p := &Peers{}
	s := bufio.NewScanner(r)
	for n := 1; s.Scan(); n++ {
		line, _, _ := strings.Cut(s.Text(), "#")
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		if len(words) != 2 {
			return nil, fmt.Errorf("line %d: %d words: want an address or a prefix, and a public key", n, len(words))
		}
		at, err := prefix(words[0])
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		key, err := ParsePublicKey(words[1])
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		p.list = append(p.list, peer{at, key})
	}
	return p, s.Err()
}

// prefix reads an address or a prefix.
func prefix(s string) (netip.Prefix, error) {
	if strings.Contains(s, "/") {
		p, err := netip.ParsePrefix(s)
		if err == nil && p.Addr().Is4In6() && p.Bits() >= 96 { // as Of has addresses
			p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
		}
		return p.Masked(), err
	}
	a, err := netip.ParseAddr(s)
	if err != nil {
		return netip.Prefix{}, err
	}
	a = a.Unmap().WithZone("")
	return netip.PrefixFrom(a, a.BitLen()), nil
}

// Of returns the keys that the host at an address may have, in the order of the file. It may be called by any
// goroutine.
func (p *Peers) Of(a netip.Addr) (keys []PublicKey) {
	a = a.Unmap().WithZone("")
	for _, x := range p.list {
		if x.at.Contains(a) {
			keys = append(keys, x.key)
		}
	}
	return keys
}
