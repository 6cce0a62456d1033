// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/softroce/softroce-xdp/mempool/node"
	"github.com/softroce/softroce-xdp/rocev2/rdma"
)

// Each node has a ticket for each server, which others cannot read, whatever characters its name has.
func TestTickets(t *testing.T) {
	d := ticketDir(filepath.Join(t.TempDir(), "a", "tickets"))
	at := func(a string) rdma.Addr { return rdma.Addr{AddrPort: netip.MustParseAddrPort(a)} }
	servers := []rdma.Addr{at("10.0.0.1:7178"), at("10.0.0.1:7179"), at("[fe80::1%eth0]:7178")}
	names := []string{"a", "..", "../a", "a/b", "a%2Fb", "a@10.0.0.1:7178", "%"}
	number := uint64(0)
	for _, s := range servers {
		for _, name := range names {
			if _, err := d.Find(s, name); !errors.Is(err, errNoTicket) {
				t.Errorf("%s at %s: %v", name, s, err)
			}
			number++
			if err := d.Keep(s, name, node.Ticket{Token: 1<<63 + number, Generation: number}); err != nil {
				t.Fatal(err)
			}
		}
	}
	number = 0
	for _, s := range servers {
		for _, name := range names {
			number++
			if got, err := d.Find(s, name); err != nil || got != (node.Ticket{Token: 1<<63 + number, Generation: number}) {
				t.Errorf("%s at %s: %+v, %v", name, s, got, err)
			}
		}
	}
	list, err := os.ReadDir(string(d))
	if err != nil || len(list) != int(number) {
		t.Errorf("%d files, want %d: %v", len(list), number, err)
	}
	for _, f := range list {
		if i, err := f.Info(); err != nil || i.Mode() != 0o600 {
			t.Errorf("%s: mode %v, %v", f.Name(), i.Mode(), err)
		}
	}
	if i, err := os.Stat(string(d)); err != nil || i.Mode().Perm() != 0o700 {
		t.Errorf("the directory: %v, %v", i.Mode(), err)
	}
	for range 2 {
		if err := d.Forget(servers[0], "a"); err != nil {
			t.Error(err)
		}
	}
	if _, err := d.Find(servers[0], "a"); !errors.Is(err, errNoTicket) {
		t.Errorf("after Forget: %v", err)
	}
	if err := os.WriteFile(d.path(servers[0], "a"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Find(servers[0], "a"); err == nil || errors.Is(err, errNoTicket) {
		t.Errorf("half a file: %v", err)
	}
}
