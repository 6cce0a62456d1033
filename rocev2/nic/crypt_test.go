// SPDX-License-Identifier: Apache-2.0

package nic

import (
	"strings"
	"testing"

	"github.com/softroce/softroce-xdp/rocev2/seal"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

var testKeys = seal.Keys{Suite: seal.AES128GCM, Send: seal.Secret{1}, Receive: seal.Secret{2}}

// Encrypt refuses what cannot be encrypted and says what to do; RESET makes a queue pair plain again.
func TestEncryptRefuses(t *testing.T) {
	d, err := OpenLoopback(Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	pd, _ := d.AllocPD()
	cq, _ := d.CreateCQ(16)
	create := func(typ verbs.QPType) *QP {
		x, err := pd.CreateQP(verbs.QPInit{Type: typ, SendCQ: cq, RecvCQ: cq})
		if err != nil {
			t.Fatal(err)
		}
		return x.(*QP)
	}
	refused := func(err error, want string) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want one with %q", err, want)
		}
	}
	refused(create(verbs.UD).Encrypt(testKeys, seal.Limits{}), "choose RC or UC")
	refused(create(verbs.RC).Encrypt(seal.Keys{Suite: 9}, seal.Limits{}), "suite 9")
	x := create(verbs.RC)
	if err := x.Encrypt(testKeys, seal.Limits{}); err != nil {
		t.Fatal(err)
	}
	refused(x.Encrypt(testKeys, seal.Limits{}), "keys already")
	refused(x.Modify(verbs.Attr{State: verbs.StateInit, PKey: 0x8001}, verbs.MaskState|verbs.MaskAccess|verbs.MaskPKey), "0xc0de")
	refused(create(verbs.RC).Modify(verbs.Attr{State: verbs.StateInit, PKey: seal.PKey}, verbs.MaskState|verbs.MaskAccess|verbs.MaskPKey), "is for encrypted")
	if err := x.Modify(verbs.Attr{}, verbs.MaskState); err != nil { // RESET
		t.Fatal(err)
	}
	if err := x.Encrypt(testKeys, seal.Limits{}); err != nil {
		t.Errorf("the keys are there after RESET: %v", err)
	}
	p, q := loopbackPair(t, pd, cq, loopbackGIDs[0])
	refused(p.(*QP).Encrypt(testKeys, seal.Limits{}), "in RESET or INIT")
	_ = q

}
