// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/testenv/lab/require"
	"github.com/softroce/softroce-xdp/testenv/lab/rxepeer"
)

// pair is two machines with a judge each, booted by the first test that wants them and shared by
// all.
type pair struct {
	net  *rxepeer.Net
	vms  []*rxepeer.VM
	a, b *Judge

	guests []func() error // closers of other users of net, to be called first
}

var (
	booted  = sync.OnceValues(bootPair)
	theirs  *pair
	jumbo   = 4200
	addrs   = [][]string{{"10.78.0.1/24", "fd78::1/64"}, {"10.78.0.2/24", "fd78::2/64"}}
	bootMax = 20 * time.Minute // a state, a restore and a boot instead
)

func TestMain(m *testing.M) {
	code := m.Run()
	if theirs != nil {
		if err := theirs.close(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

func machines(t *testing.T) (context.Context, *pair) {
	t.Helper()
	if testing.Short() {
		t.Skip("boots machines")
	}
	if err := rxepeer.CheckHost(); err != nil {
		require.Skip(t, err.Error())
	}
	require.Command(t, "gcc")
	p, err := booted()
	if err != nil {
		t.Fatal(err)
	}
	for _, vm := range p.vms {
		t.Log(vm.Describe())
	}
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	return ctx, p
}

func bootPair() (*pair, error) {
	ctx, cancel := context.WithTimeout(context.Background(), bootMax)
	defer cancel()
	n, err := rxepeer.NewNet(jumbo)
	if err != nil {
		return nil, err
	}
	p := &pair{net: n}
	theirs = p
	var configs []rxepeer.Config
	for i, name := range []string{"ja", "jb"} {
		nic := rxepeer.NIC{Net: n, MTU: jumbo}
		for _, a := range addrs[i] {
			nic.Addrs = append(nic.Addrs, netip.MustParsePrefix(a))
		}
		cfg, err := Prepare(ctx, rxepeer.Config{Name: name, NICs: []rxepeer.NIC{nic}})
		if err != nil {
			return nil, err
		}
		configs = append(configs, cfg)
	}
	if p.vms, err = rxepeer.BootAll(ctx, configs...); err != nil {
		return nil, err
	}
	if p.a, err = Open(ctx, p.vms[0]); err != nil {
		return nil, err
	}
	p.b, err = Open(ctx, p.vms[1])
	return p, err
}

func (p *pair) close() error {
	var errs []error
	for _, close := range p.guests {
		errs = append(errs, close())
	}
	for _, j := range []*Judge{p.a, p.b} {
		if j != nil {
			errs = append(errs, j.Close())
		}
	}
	for _, vm := range p.vms {
		errs = append(errs, vm.Close())
	}
	return errors.Join(append(errs, p.net.Close())...)
}

func (p *pair) bench(t *testing.T) *Bench {
	b := &Bench{A: p.a, B: p.b, Impair: ImpairBetween(p.vms...), HostDrops: p.hostDrops}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// hostDrops counts the packets that the host has dropped in front of the machines.
func (p *pair) hostDrops() (sum uint64, err error) {
	for _, vm := range p.vms {
		n, err := p.net.Drops(rxepeer.TapName(vm.Config.Name, 0))
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}
