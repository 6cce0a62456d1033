// SPDX-License-Identifier: Apache-2.0

package rocev2

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/testenv/lab/require"
)

const (
	scapyScript  = "testdata/scapy_vectors.py"
	scapyVectors = "testdata/scapy_ipv4.txt"
	python       = "/usr/bin/python3"
)

// Datagrams that scapy made: ours must build the same bytes and find their ICRC
// right.
func TestScapyVectors(t *testing.T) {
	file, err := os.ReadFile(scapyVectors)
	if err != nil {
		t.Fatal(err)
	}
	count := make([]byte, 1024)
	for i := range count {
		count[i] = byte(i)
	}
	base := Datagram{Src: src4, Dst: dst4, SrcPort: 0xC0DE, DestQP: 0x11, VA: 0x7F0012345678, RKey: 0xCAFE0001, DMALen: 4096}
	build := map[string]func(d *Datagram){
		"write_first":  func(d *Datagram) { d.IPID, d.Opcode, d.PSN, d.Payload = 1, RCWriteFirst, 0xFFFFFF, count },
		"write_middle": func(d *Datagram) { d.IPID, d.Opcode, d.Payload = 2, RCWriteMiddle, count },
		"write_last_pad1": func(d *Datagram) {
			d.IPID, d.Opcode, d.PSN, d.AckReq, d.Payload = 3, RCWriteLast, 1, true, []byte("abc")
		},
		"send_only_solicited_tos": func(d *Datagram) {
			d.IPID, d.TOS, d.Opcode, d.DestQP, d.PSN = 4, 0x6B, RCSendOnly, 0x123456, 7
			d.Solicited, d.MigReq, d.Payload = true, true, []byte("hello, world")
		},
		"read_request": func(d *Datagram) { d.IPID, d.Opcode, d.PSN, d.AckReq = 5, RCReadRequest, 9, true },
		"ack":          func(d *Datagram) { d.IPID, d.Opcode, d.DestQP, d.PSN, d.Syndrome, d.MSN = 6, RCAck, 0x12, 9, 31, 3 },
		"nak_psn":      func(d *Datagram) { d.IPID, d.Opcode, d.DestQP, d.PSN, d.Syndrome, d.MSN = 7, RCAck, 0x12, 4, 0x60, 3 },
		"cnp":          func(d *Datagram) { d.IPID, d.TOS, d.Opcode, d.DestQP = 8, CNPTOS, CNP, 0x12 },
		"ud_send_only": func(d *Datagram) {
			d.IPID, d.Opcode, d.DestQP, d.PSN = 9, UDSendOnly, 1, 2
			d.QKey, d.SrcQP, d.Payload = 0x80010000, 1, bytes.Repeat([]byte{0x55}, 256)
		},
	}
	lines := strings.Split(strings.TrimSpace(string(file)), "\n")
	equal(t, "vectors", len(lines), len(build))
	for _, line := range lines {
		name, wire, _ := strings.Cut(line, " ")
		t.Run(name, func(t *testing.T) {
			want := testkit.Unhex(t, wire)
			p, err := ParseIP(want)
			if err != nil {
				t.Fatal(err)
			}
			if err := p.VerifyICRC(); err != nil {
				t.Error(err)
			}
			d := base
			build[name](&d)
			got, err := d.AppendTo(nil)
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("built\n%x, scapy has\n%x (%v)", got, want, err)
			}
		})
	}
}

// needScapy skips where scapy is missing.
func needScapy(t *testing.T) {
	t.Helper()
	if out, err := exec.Command(python, "-c", "import scapy.contrib.roce").CombinedOutput(); err != nil {
		require.Skip(t, fmt.Sprintf("scapy is missing (%v, %s): apt install python3-scapy", err, out))
	}
}

// The committed vectors are what the script prints.
func TestScapyVectorsAreCurrent(t *testing.T) {
	needScapy(t)
	out, err := exec.Command(python, scapyScript, "vectors").Output()
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(scapyVectors)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(out, want) {
		t.Errorf("%s is not what %s prints; look at the difference and commit it", scapyVectors, scapyScript)
	}
}

// Random IPv4 datagrams of every opcode: scapy and we agree on the ICRC.
func TestScapyAgreesOnICRC(t *testing.T) {
	needScapy(t)
	var datagrams [][]byte
	gen := rapid.Custom(drawDatagram)
	for i := range 400 {
		if b := gen.Example(i); b[0]>>4 == 4 {
			datagrams = append(datagrams, b)
		}
	}
	if len(datagrams) < 100 {
		t.Errorf("only %d datagrams", len(datagrams))
	}
	compareScapy(t, datagrams)
}

// compareScapy has scapy compute the ICRC of IPv4 datagrams that end with theirs.
func compareScapy(t *testing.T, datagrams [][]byte) {
	t.Helper()
	var in, stderr bytes.Buffer
	for _, b := range datagrams {
		fmt.Fprintf(&in, "%x\n", b)
	}
	cmd := exec.Command(python, scapyScript, "icrc")
	cmd.Stdin, cmd.Stderr = &in, &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", scapyScript, err, stderr.Bytes())
	}
	theirs := strings.Fields(string(out))
	if len(theirs) != len(datagrams) {
		t.Fatalf("%d datagrams, %d answers", len(datagrams), len(theirs))
	}
	for i, b := range datagrams {
		if ours := hex.EncodeToString(b[len(b)-ICRCLen:]); ours != theirs[i] {
			t.Errorf("ICRC %s, scapy %s of %x", ours, theirs[i], b)
		}
	}
}
