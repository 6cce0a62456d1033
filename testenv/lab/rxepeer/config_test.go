// SPDX-License-Identifier: Apache-2.0

package rxepeer

import (
	"strings"
	"testing"
)

func TestConfigErrors(t *testing.T) {
	for _, tc := range []struct {
		name string
		cfg  Config
		want string
	}{
		{"no name", Config{}, "name must match"},
		{"name too long for a tap", Config{Name: "averylongname"}, "name must match"},
		{"no net", Config{Name: "a", NICs: []NIC{{}}}, "NIC 0 has no Net"},
		{"MTU", Config{Name: "a", NICs: []NIC{{Net: &Net{}, MTU: 10}}}, "MTU 10"},
		{"queues", Config{Name: "a", NICs: []NIC{{Net: &Net{}, Queues: 100}}}, "100 queue pairs"},
		{"memory", Config{Name: "a", MemoryMB: 64}, "64 MB"},
		{"CPUs", Config{Name: "a", CPUs: 100}, "100 CPUs"},
		{"product", Config{Name: "a", Product: "/does/not/exist"}, "/does/not/exist"},
		{"relative path", Config{Name: "a", Files: map[string]string{"x": "/etc/hostname"}}, "must be absolute"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if _, err := tc.cfg.complete(); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want one with %q", err, tc.want)
			}
		})
	}
}

func TestConfigDefaults(t *testing.T) {
	c, err := Config{Name: "a", CPUs: 2, NICs: []NIC{{Net: &Net{}}, {Net: &Net{}}}}.complete()
	if err != nil {
		t.Fatal(err)
	}
	if n := c.NICs[0]; n.MTU != 1500 || n.Queues != 4 {
		t.Errorf("NIC defaults: %+v", n)
	}
	if c.NICs[0].MAC.String() == c.NICs[1].MAC.String() {
		t.Errorf("both cards have MAC %s", c.NICs[0].MAC)
	}
	c = Config{Name: "a", Image: &Image{}, NICs: c.NICs, Qemu: []string{"-device", "edu"}}
	args := strings.Join(qemuArgs(c, start{initrd: "i", console: "c"}), " ")
	for _, want := range []string{"-device edu", "fds=6:7:8:9", "fds=10:11:12:13", "mq=on,vectors=10", "guest_tso4=off", "host_mtu=1500"} {
		if !strings.Contains(args, want) {
			t.Errorf("no %s in %s", want, args)
		}
	}
}

func TestListens(t *testing.T) {
	const table = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt
   0: 00000000:4853 00000000:0000 0A 00000000:00000000 00:00000000 00000000
   1: 0100007F:1F90 0100007F:4853 01 00000000:00000000 00:00000000 00000000
`
	for port, want := range map[int]bool{18515: true, 8080: false, 0: false} {
		if got := Listens([]byte(table), port); got != want {
			t.Errorf("port %d: %v", port, got)
		}
	}
}

func TestTrouble(t *testing.T) {
	before := Counters{"sent_pkts": 1, "duplicate_request": 2, "rcvd_rnr_err": 5}
	after := Counters{"sent_pkts": 9, "duplicate_request": 3, "rcvd_rnr_err": 5}
	got := after.Trouble(before)
	if len(got) != 1 || got["duplicate_request"] != 1 {
		t.Errorf("got %v, want one duplicate request", got)
	}
	if got := after.TroubleIn(Exchange{}, before); len(got) != 1 {
		t.Errorf("patient: %v", got)
	}
	after["rcvd_rnr_err"]++
	if got := after.TroubleIn(Exchange{Impatient: true}, before); len(got) != 1 || got["rcvd_rnr_err"] != 1 {
		t.Errorf("impatient: %v, want one RNR", got)
	}
}
