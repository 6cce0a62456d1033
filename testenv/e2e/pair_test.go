// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/testenv/lab/require"
	"github.com/softroce/softroce-xdp/testenv/lab/rxepeer"
)

// pair are two machines with rxe on one bridge, the product on board: a with
// 10.77.0.1 and fd77::1, b with .2 and ::2. In every exchange a is the client.
type pair struct {
	net  *rxepeer.Net
	a, b *rxepeer.VM
}

func (p *pair) both() []*rxepeer.VM { return []*rxepeer.VM{p.a, p.b} }

func bootPair(ctx context.Context, t *testing.T, mtu int, release string) *pair {
	t.Helper()
	if testing.Short() {
		t.Skip("boots machines")
	}
	if err := rxepeer.CheckHost(); err != nil {
		require.Skip(t, err.Error())
	}
	n, err := rxepeer.NewNet(mtu)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.Close() })
	bin := product(t)
	config := func(name string, host int) rxepeer.Config {
		return rxepeer.Config{Name: name, Release: release, Product: bin, NICs: []rxepeer.NIC{{Net: n, MTU: mtu, Addrs: []netip.Prefix{
			netip.MustParsePrefix(fmt.Sprintf("10.77.0.%d/24", host)),
			netip.MustParsePrefix(fmt.Sprintf("fd77::%d/64", host)),
		}}}}
	}
	vms, err := rxepeer.BootAll(ctx, config("a", 1), config("b", 2))
	if err != nil {
		t.Fatal(err)
	}
	for _, vm := range vms {
		t.Cleanup(func() { vm.Close() })
		t.Log(vm.Describe())
	}
	return &pair{n, vms[0], vms[1]}
}

// run runs a command in a machine; the agent's log explains a failure.
func run(ctx context.Context, t *testing.T, vm *rxepeer.VM, argv ...string) string {
	t.Helper()
	res, err := vm.Run(ctx, argv...)
	if err != nil {
		log, _ := vm.Get(ctx, "/run/softroce-xdp/eth0.log")
		t.Fatalf("%s: %v\nagent log:\n%s", vm.Config.Name, err, log)
	}
	return res.Stdout
}

// attach attaches both and waits until they know each other over IPv4 and IPv6. It
// returns what a's attach said.
func (p *pair) attach(ctx context.Context, t *testing.T, flags ...string) string {
	t.Helper()
	said := p.attachOne(ctx, t, p.a, flags...)
	p.attachOne(ctx, t, p.b, flags...)
	for _, v6 := range []bool{false, true} {
		// The first packets to an address make its entry, and then HELLO goes out.
		x := rxepeer.Exchanges(p.route(ctx, t, v6))[0]
		if _, err := p.b.Exchange(ctx, p.a, x); err != nil {
			t.Fatal(err)
		}
		waitAware(ctx, t, p.a, p.addr(p.b, v6))
		waitAware(ctx, t, p.b, p.addr(p.a, v6))
	}
	return said
}

func (p *pair) attachOne(ctx context.Context, t *testing.T, vm *rxepeer.VM, flags ...string) string {
	t.Helper()
	said := strings.TrimSpace(run(ctx, t, vm, append([]string{"softroce-xdp", "attach", "eth0"}, flags...)...))
	t.Logf("%s: %s", vm.Config.Name, said)
	return said
}

func (p *pair) detach(ctx context.Context, t *testing.T) {
	t.Helper()
	for _, vm := range p.both() {
		run(ctx, t, vm, "softroce-xdp", "detach", "eth0")
	}
}

func (p *pair) addr(vm *rxepeer.VM, v6 bool) netip.Addr {
	i := 0
	if v6 {
		i = 1
	}
	return vm.Config.NICs[0].Addrs[i].Addr()
}

func (p *pair) route(ctx context.Context, t *testing.T, v6 bool) rxepeer.Route {
	t.Helper()
	r, err := rxepeer.RouteTo(ctx, p.b, p.a, v6)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func waitAware(ctx context.Context, t *testing.T, vm *rxepeer.VM, peer netip.Addr) {
	t.Helper()
	for end := time.Now().Add(testkit.Patience); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if destTable(ctx, t, vm)[peer].Caps&bpf.CapStamp != 0 {
			return
		}
	}
	log, _ := vm.Get(ctx, "/run/softroce-xdp/eth0.log")
	t.Fatalf("%s: %s did not answer HELLO\n%s", vm.Config.Name, peer, log)
}

// capture runs f and returns the file with what passed b's wire meanwhile. It runs f again if
// this host did not capture all of it.
func (p *pair) capture(t *testing.T, file string, f func()) string {
	t.Helper()
	file = filepath.Join(t.TempDir(), file)
	const tries = 5
	for i := 1; ; i++ {
		c, err := p.net.Capture(file, rxepeer.CaptureConfig{Iface: rxepeer.TapName("b", 0), Max: 200_000})
		if err != nil {
			t.Fatal(err)
		}
		f()
		stats, err := c.Stop()
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case stats.Dropped == 0 && !stats.Full:
			return file
		case stats.Full || i == tries:
			t.Fatalf("the capture is not complete: %+v", stats)
		}
		t.Logf("this host was too busy to capture %d packets: again", stats.Dropped)
	}
}

// phase is what rxe counted during a round of exchanges.
type phase struct {
	trouble map[string]uint64 // error counters that moved, by "machine counter"
	lost    map[string]int64  // sent by one driver and not received by the other
}

// everything is all kinds of traffic that rxe carries.
func everything(r rxepeer.Route) []rxepeer.Exchange { return rxepeer.Exchanges(r) }

// exchanges runs traffic over IPv4 and IPv6. An exchange that fails, fails the test.
func (p *pair) exchanges(ctx context.Context, t *testing.T, name string, what func(rxepeer.Route) []rxepeer.Exchange) phase {
	t.Helper()
	sum := phase{map[string]uint64{}, map[string]int64{}}
	for _, v6 := range []bool{false, true} {
		for _, x := range what(p.route(ctx, t, v6)) {
			got := p.exchange(ctx, t, fmt.Sprintf("%s: %s over %s", name, x.Name, family(v6)), x)
			for k, n := range got.trouble {
				sum.trouble[k] += n
			}
			for k, n := range got.lost {
				sum.lost[k] += n
			}
		}
	}
	return sum
}

func family(v6 bool) string {
	if v6 {
		return "IPv6"
	}
	return "IPv4"
}

// lateTries is how often an exchange is run that a paused machine may have spoilt.
const lateTries = 5

// exchange runs one exchange. It is run again if the host may have spoilt it by pausing a machine:
//   - Packets were dropped in front of the machine. UC and UD do not repeat what is lost, and wait for it.
//   - A program was given no answer in time (rxepeer.Late), or is an impatient one that has failed.
//   - rxe repeated packets, though all arrived.
//
// What the product delays is late each time.
func (p *pair) exchange(ctx context.Context, t *testing.T, name string, x rxepeer.Exchange) phase {
	t.Helper()
	const tries = 10
	for i := 1; ; i++ {
		drops := p.hostDrops(t)
		got, err := p.tryExchange(ctx, t, name, x)
		drops = p.hostDrops(t) - drops
		if drops > 0 && i < tries {
			t.Logf("%s: the host dropped %d packets in front of a paused machine: again (%v)", name, drops, err)
			continue
		}
		if err != nil && (x.Impatient || rxepeer.Late(err.Error())) && i < lateTries {
			t.Logf("%s: again: %v", name, err)
			continue
		}
		if err == nil && len(got.trouble) > 0 && got.lost["a to b"] == 0 && got.lost["b to a"] == 0 && i < lateTries {
			continue
		}
		if err != nil {
			t.Errorf("%s: %v (the host dropped %d packets)", name, err, drops)
		}
		return got
	}
}

func (p *pair) hostDrops(t *testing.T) uint64 {
	t.Helper()
	sum := uint64(0)
	for _, vm := range p.both() {
		n, err := p.net.Drops(rxepeer.TapName(vm.Config.Name, 0))
		if err != nil {
			t.Fatal(err)
		}
		sum += n
	}
	return sum
}

func (p *pair) tryExchange(ctx context.Context, t *testing.T, name string, x rxepeer.Exchange) (phase, error) {
	t.Helper()
	got := phase{map[string]uint64{}, map[string]int64{}}
	beforeA, beforeB := rxeCounters(ctx, t, p.a), rxeCounters(ctx, t, p.b)
	start := time.Now()
	_, err := p.b.Exchange(ctx, p.a, x)
	took := time.Since(start).Round(10 * time.Millisecond)

	// The last packets may still be in flight when the programs end.
	var afterA, afterB rxepeer.Counters
	for quiet := 0; quiet < 20; quiet++ {
		lastA, lastB := afterA, afterB
		afterA, afterB = rxeCounters(ctx, t, p.a), rxeCounters(ctx, t, p.b)
		moved := func(c, before rxepeer.Counters, name string) int64 { return int64(c[name] - before[name]) }
		got.lost["a to b"] = moved(afterA, beforeA, "sent_pkts") - moved(afterB, beforeB, "rcvd_pkts")
		got.lost["b to a"] = moved(afterB, beforeB, "sent_pkts") - moved(afterA, beforeA, "rcvd_pkts")
		if got.lost["a to b"] == 0 && got.lost["b to a"] == 0 {
			break
		}
		if !maps.Equal(afterA, lastA) || !maps.Equal(afterB, lastB) {
			quiet = 0
		}
		time.Sleep(50 * time.Millisecond)
	}
	for k, n := range afterA.TroubleIn(x, beforeA) {
		got.trouble["a "+k] = n
	}
	for k, n := range afterB.TroubleIn(x, beforeB) {
		got.trouble["b "+k] = n
	}
	note := ""
	if all := fmt.Sprint(afterA.Trouble(beforeA), afterB.Trouble(beforeB)); all != "map[] map[]" {
		note = " rxe counted " + all
	}
	if got.lost["a to b"] != 0 || got.lost["b to a"] != 0 {
		note += fmt.Sprint(" lost ", got.lost)
	}
	// A pingpong that has all it waits for destroys its queue pair. What its peer then
	// sends again, for want of the last ACK, reaches no queue pair, and rxe does not count it.
	const retries = "completer_retry_err"
	if x.Impatient && afterA[retries] > beforeA[retries] {
		delete(got.lost, "a to b")
	}
	if x.Impatient && afterB[retries] > beforeB[retries] {
		delete(got.lost, "b to a")
	}
	t.Logf("%-50s %6v %d packets%s", name, took, afterA["sent_pkts"]-beforeA["sent_pkts"]+afterB["sent_pkts"]-beforeB["sent_pkts"], note)
	return got, err
}

// check compares with the same exchanges without the product in the same machines:
// whatever rxe did not count then, it must not count now, and a packet that one
// driver sent must reach the other with its ICRC right (rxe counts no others).
func (got phase) check(t *testing.T, name string, control phase) {
	t.Helper()
	for _, k := range slices.Sorted(maps.Keys(got.trouble)) {
		if control.trouble[k] == 0 {
			t.Errorf("%s: rxe's %s moved by %d, and did not without the product", name, k, got.trouble[k])
		}
	}
	for _, k := range slices.Sorted(maps.Keys(got.lost)) {
		if got.lost[k] != 0 && control.lost[k] == 0 {
			t.Errorf("%s: %d packets from %s did not reach rxe, and all did without the product", name, got.lost[k], k)
		}
	}
}

func rxeCounters(ctx context.Context, t *testing.T, vm *rxepeer.VM) rxepeer.Counters {
	t.Helper()
	c, err := vm.RxeCounters(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return c
}
