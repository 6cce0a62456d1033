// SPDX-License-Identifier: Apache-2.0

package nicbench

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/nic"
	"github.com/softroce/softroce-xdp/rocev2/seal"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/testenv/bench/internal/status"
)

// sealTarget is the share of the plain goodput that an encrypted queue pair must have at a PMTU of 4096.
const sealTarget = 0.80

// encrypt gives two queue pairs of devices in this process random keys.
func encrypt(a, b verbs.QP) error {
	k := seal.Keys{Suite: seal.AES128GCM}
	for _, s := range []*seal.Secret{&k.Send, &k.Receive} {
		if _, err := rand.Read(s[:]); err != nil {
			return err
		}
	}
	back := seal.Keys{Suite: k.Suite, Send: k.Receive, Receive: k.Send}
	return errors.Join(a.(seal.Encrypter).Encrypt(k, seal.Limits{}), b.(seal.Encrypter).Encrypt(back, seal.Limits{}))
}

// sealed compares encrypted queue pairs with plain ones, which take turns on the same devices.
func sealed(_ context.Context, w *world, c config, r *report) error {
	const size = 64 << 10
	for _, pmtu := range []rocev2.PMTU{rocev2.PMTU4096, rocev2.PMTU1024} {
		r.table(fmt.Sprintf("Encryption, PMTU %d, messages of %s", pmtu.Bytes(), bytes(size)),
			"OPERATION\tPLAIN GBIT/S\tENCRYPTED GBIT/S\tSHARE\tMIN TO MAX\tTARGET\t\t")
		for _, o := range operations {
			var plain, encrypted, shares []float64
			err := w.withEngines(nic.Options{}, func(devs [2]*nic.Device) error {
				for range c.rounds {
					before, err := sealedStream(devs, w, pmtu, o.op, size, c.each, false)
					if err != nil {
						return err
					}
					with, err := sealedStream(devs, w, pmtu, o.op, size, c.each, true)
					if err != nil {
						return err
					}
					after, err := sealedStream(devs, w, pmtu, o.op, size, c.each, false)
					if err != nil {
						return err
					}
					plain, encrypted = append(plain, before, after), append(encrypted, with)
					shares = append(shares, with/((before+after)/2))
				}
				return nil
			})
			if err != nil {
				return fmt.Errorf("%s: %w", o.name, err)
			}
			share, verdict := status.Median(shares), none
			if pmtu == rocev2.PMTU4096 {
				verdict = r.atLeast(share, sealTarget, "%.2f")
			}
			r.row("%s\t%.2f\t%.2f\t%.3f\t%s\t%s", o.name, status.Median(plain)*8/1e9, status.Median(encrypted)*8/1e9, share, span(shares, "%.2f"), verdict)
		}
		r.end("Plain queue pairs are measured right before and right after an encrypted one (AES-128-GCM) on the same devices; the median of the rounds' shares.")
	}
	return nil
}

// sealedStream returns the goodput of one queue pair in bytes a second.
func sealedStream(devs [2]*nic.Device, w *world, pmtu rocev2.PMTU, op verbs.Op, size int, length time.Duration, on bool) (float64, error) {
	under := bytesInFlight / size
	p, err := newPair(devs, w.addrs, pairSpec{qps: 1, depth: under, memory: bytesInFlight, pmtu: pmtu, sealed: on})
	if err != nil {
		return 0, err
	}
	f, err := p.run(stream{op: op, size: size, under: under}, length/4, length, nil, nil)
	if err != nil {
		return 0, err
	}
	return f.perSecond() * float64(size), p.close()
}
