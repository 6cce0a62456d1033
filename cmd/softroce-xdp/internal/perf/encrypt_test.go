// SPDX-License-Identifier: Apache-2.0

package perf

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/internal/testkit/devices"
	"github.com/softroce/softroce-xdp/rocev2/rdma"
	"github.com/softroce/softroce-xdp/rocev2/seal"
)

func encryption(t *testing.T, own, peer *seal.Identity) *rdma.Encryption {
	t.Helper()
	return &rdma.Encryption{Identity: own, Peers: func(netip.Addr) []seal.PublicKey { return []seal.PublicKey{peer.Public()} }}
}

// Runs are encrypted on all queue pairs, and a client and a server that do not agree say why.
func TestEncryptedRun(t *testing.T) {
	var ids [3]*seal.Identity
	for i := range ids {
		var err error
		if ids[i], err = seal.NewIdentity(); err != nil {
			t.Fatal(err)
		}
	}
	client, server := encryption(t, ids[0], ids[1]), encryption(t, ids[1], ids[0])
	third := encryption(t, ids[2], ids[1])
	for _, c := range []struct {
		name           string
		client, server *rdma.Encryption
		want           string // "": it runs
	}{
		{"both", client, server, ""},
		{"client only", client, nil, "start it with --encrypt"},
		{"server only", nil, server, "use --encrypt"},
		{"another key", third, server, "is your public key known here"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dev := devices.Loopback(t)
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
			ended := make(chan error, 1)
			go func() { ended <- Serve(ctx, l, dev, 1<<30, c.server, slog.New(slog.NewTextHandler(io.Discard, nil))) }()
			defer func() {
				cancel()
				if err := <-ended; err != nil {
					t.Error(err)
				}
			}()
			for _, op := range []string{"write", "read", "send"} {
				p := goodPlan()
				p.Op, p.Size, p.QPs, p.Depth, p.Count, p.Duration, p.Warmup, p.Check = op, 10000, 3, 4, 20, 0, 0, true
				r, err := (&Client{Device: dev, Encryption: c.client}).Run(ctx, l.Addr().String(), p)
				if c.want != "" {
					if err == nil || !strings.Contains(err.Error(), c.want) {
						t.Errorf("%v; want %q", err, c.want)
					}
					continue
				}
				if err != nil {
					t.Fatal(err)
				}
				if n := r.Counters["tx_encrypted"]; !r.Checked || r.PMTU != 4096 || n == 0 || n != r.Counters["sent_pkts"] {
					t.Errorf("%s: %+v", op, r)
				}
			}
		})
	}
}
