// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/softroce/softroce-xdp/mempool/directory"
)

// DefaultPrefix begins the keys of a pool whose URL has no path.
const DefaultPrefix = "/softroce-xdp/pool"

// TTL is how long an entry stays without being renewed.
const TTL = 10 * time.Second

// Directory is a directory in etcd.
type Directory struct {
	c      client
	prefix string // prefix of the keys of servers
}

var _ directory.Directory = (*Directory)(nil)

// Open returns the directory at a list of URLs of the members of a cluster, separated by commas:
// "http://10.0.0.9:2379/NAME". The path is the beginning of the keys, so that one etcd has several pools; all
// URLs have the same. Nothing is asked yet.
func Open(list string) (*Directory, error) {
	d := &Directory{}
	path := ""
	for i, text := range strings.Split(list, ",") {
		u, err := url.Parse(strings.TrimSpace(text))
		switch {
		case err != nil:
			return nil, fmt.Errorf("%q is no URL: write http://HOST:2379", text)
		case u.Scheme == "https":
			return nil, fmt.Errorf("%q: TLS is not supported: write http://HOST:2379", text)
		case u.Scheme != "http", u.Hostname() == "", u.RawQuery != "", u.Fragment != "":
			return nil, fmt.Errorf("%q: write http://HOST:2379", text)
		case u.User != nil:
			return nil, fmt.Errorf("%q: a user is not supported", u.Redacted())
		case i > 0 && strings.TrimRight(u.Path, "/") != path:
			return nil, fmt.Errorf("%q: all URLs have the same path, and the first one has %q", text, path)
		}
		path = strings.TrimRight(u.Path, "/")
		port := u.Port()
		if port == "" {
			port = "2379"
		}
		d.c.members = append(d.c.members, net.JoinHostPort(u.Hostname(), port))
	}
	if path == "" {
		path = DefaultPrefix
	}
	d.prefix = path + "/servers/"
	return d, nil
}

// The messages of etcd that are used, in JSON. []byte is base64 there, and integers of 64 bits are strings.
type (
	rangeRequest struct {
		Key      []byte `json:"key"`
		RangeEnd []byte `json:"range_end,omitempty"`
	}
	keyValue struct {
		Key         []byte `json:"key"`
		Value       []byte `json:"value"`
		ModRevision int64  `json:"mod_revision,string"`
		Lease       int64  `json:"lease,string"`
	}
	rangeAnswer struct {
		KVs []keyValue `json:"kvs"`
	}
	leaseRequest struct {
		TTL int64 `json:"TTL,string,omitempty"` // seconds
		ID  int64 `json:"ID,string,omitempty"`
	}
	leaseAnswer struct {
		ID  int64 `json:"ID,string"`
		TTL int64 `json:"TTL,string"`
	}
	keepAliveAnswer struct {
		Result leaseAnswer `json:"result"`
	}
	compare struct {
		Target      string `json:"target"` // MOD or LEASE
		Result      string `json:"result"` // EQUAL
		Key         []byte `json:"key"`
		ModRevision *int64 `json:"mod_revision,string,omitempty"`
		Lease       *int64 `json:"lease,string,omitempty"`
	}
	put struct {
		Key   []byte `json:"key"`
		Value []byte `json:"value"`
		Lease int64  `json:"lease,string"`
	}
	operation struct {
		Put *put `json:"request_put"`
	}
	txnRequest struct {
		Compare []compare   `json:"compare"`
		Success []operation `json:"success"`
	}
	txnAnswer struct {
		Succeeded bool `json:"succeeded"`
	}
)

// Servers returns the servers. Values that are no entries are left out.
func (d *Directory) Servers(ctx context.Context) ([]directory.Server, error) {
	end := []byte(d.prefix)
	end[len(end)-1]++
	var answer rangeAnswer
	if err := d.c.do(ctx, request{path: "/v3/kv/range", in: rangeRequest{[]byte(d.prefix), end}, out: &answer}); err != nil {
		return nil, err
	}
	var list []directory.Server
	for _, kv := range answer.KVs { // in the order of their keys
		var s directory.Server
		if json.Unmarshal(kv.Value, &s) == nil && s.Check() == nil && d.prefix+s.Name == string(kv.Key) {
			list = append(list, s)
		}
	}
	return list, nil
}

// Add makes an entry. That of a server at the same address is replaced: it has ended, and its TTL has not.
func (d *Directory) Add(ctx context.Context, s directory.Server) (directory.Entry, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	e := &entry{d: d, key: []byte(d.prefix + s.Name)}
	var old rangeAnswer
	if err := d.c.do(ctx, request{path: "/v3/kv/range", in: rangeRequest{Key: e.key}, out: &old}); err != nil {
		return nil, err
	}
	revision := int64(0)
	for _, kv := range old.KVs {
		var other directory.Server
		if json.Unmarshal(kv.Value, &other) == nil && other.Address != s.Address {
			return nil, fmt.Errorf("%s is at %s: %w", s.Name, other.Address, directory.ErrTaken)
		}
		revision = kv.ModRevision
	}
	var granted leaseAnswer
	if err := d.c.do(ctx, request{path: "/v3/lease/grant", in: leaseRequest{TTL: int64(TTL / time.Second)}, out: &granted}); err != nil {
		return nil, err
	}
	e.lease = granted.ID
	done, err := e.put(ctx, s, compare{Target: "MOD", Result: "EQUAL", Key: e.key, ModRevision: &revision})
	if err == nil && !done {
		err = fmt.Errorf("%s: %w, which has just begun", s.Name, directory.ErrTaken)
	}
	if err != nil {
		return nil, errors.Join(err, e.Close(ctx))
	}
	return e, nil
}

// entry is a key with its etcd lease.
type entry struct {
	d     *Directory
	key   []byte
	lease int64
}

// put writes the value if a condition holds, and returns whether it does.
func (e *entry) put(ctx context.Context, s directory.Server, when compare) (bool, error) {
	value, err := json.Marshal(s)
	if err != nil {
		return false, err
	}
	var answer txnAnswer
	err = e.d.c.do(ctx, request{path: "/v3/kv/txn", in: txnRequest{
		Compare: []compare{when}, Success: []operation{{&put{e.key, value, e.lease}}},
	}, out: &answer})
	return answer.Succeeded, e.explain(err)
}

// explain turns the error that the lease has ended into ErrExpired.
func (e *entry) explain(err error) error {
	var r *refusedError
	if errors.As(err, &r) && r.code == codeNotFound {
		return fmt.Errorf("%w: %w", directory.ErrExpired, err)
	}
	return err
}

// Renew implements directory.Entry.
func (e *entry) Renew(ctx context.Context) error {
	var answer keepAliveAnswer
	err := e.d.c.do(ctx, request{path: "/v3/lease/keepalive", in: leaseRequest{ID: e.lease}, out: &answer})
	if err == nil && answer.Result.TTL <= 0 {
		return directory.ErrExpired
	}
	return e.explain(err)
}

// Replace implements directory.Entry.
func (e *entry) Replace(ctx context.Context, s directory.Server) error {
	done, err := e.put(ctx, s, compare{Target: "LEASE", Result: "EQUAL", Key: e.key, Lease: &e.lease})
	if err == nil && !done {
		return directory.ErrExpired
	}
	return err
}

// Close implements directory.Entry.
func (e *entry) Close(ctx context.Context) error {
	var answer struct{}
	return e.explain(e.d.c.do(ctx, request{path: "/v3/lease/revoke", in: leaseRequest{ID: e.lease}, out: &answer}))
}
