// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/gopacket"
	gplayers "github.com/google/gopacket/layers"
	"github.com/google/gopacket/pcapgo"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/softroce/softroce-xdp/loader"
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/testenv/lab/confine"
	"github.com/softroce/softroce-xdp/testenv/lab/require"
	"github.com/softroce/softroce-xdp/testenv/lab/script"
)

func TestMain(m *testing.M) {
	confine.Main()
	testscript.Main(m, map[string]func(){"softroce-xdp": func() {
		// LACKS lists features that this kernel shall seem to be without.
		if names := os.Getenv("LACKS"); names != "" {
			if err := loader.DenyFeatures(strings.Split(names, ",")...); err != nil {
				panic(err)
			}
		}
		program.Main()
	}})
}

// The scripts of testdata/script need nothing; those of testdata/net are run as
// root on two hosts in network namespaces.

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script", Cmds: commands, UpdateScripts: os.Getenv("UPDATE") != "", RequireExplicitExec: true,
	})
}

func TestNetScripts(t *testing.T) {
	require.Root(t)
	require.Command(t, "nsenter", "unshare", "setpriv", "ip", "bpftool", "mount", "clang-19", "gcc", "python3")
	testscript.Run(t, testscript.Params{
		Dir: "testdata/net", Cmds: commands, Setup: script.BuildHosts, UpdateScripts: os.Getenv("UPDATE") != "", RequireExplicitExec: true,
	})
}

// commands that the scripts have besides those of package script:
//
//	capture FILE [bad]        writes a pcap of two packets, or with one ICRC wrong
//	engine REASON             opens an engine on a's eth0 in this process, which must be refused with
//	                          loader.ErrEngineRunning and that reason
//	forge HOST ARGS...        runs softroce-xdp ARGS on a until SIGINT, with forged packets for both hosts, while
//	                          the egress program of HOST (a or b) is removed; file forged has its output
var commands = script.Commands(map[string]script.Command{"capture": capture, "engine": engineRefused, "forge": forge})

// capture writes a file of two packets.
func capture(ts *testscript.TestScript, neg bool, args []string) {
	f, err := os.Create(ts.MkAbs(args[0]))
	ts.Check(err)
	defer f.Close()
	ts.Check(writeCapture(f, len(args) > 1))
}

// writeCapture writes two HELLOs as Ethernet frames; if bad, the second one's ICRC is
// wrong.
func writeCapture(to io.Writer, bad bool) error {
	w := pcapgo.NewWriter(to)
	if err := w.WriteFileHeader(65536, gplayers.LinkTypeEthernet); err != nil {
		return err
	}
	ethernet := []byte{2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x08, 0x00}
	for i := range 2 {
		var buf [rocev2.MaxHelloLen]byte
		n, err := rocev2.BuildHello(buf[:], netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2"), rocev2.Hello{Node: 7, Nonce: uint64(i)})
		if err != nil {
			return err
		}
		if bad && i == 1 {
			buf[20+8+12] ^= 1 // the version field of the body
		}
		frame := append(ethernet, buf[:n]...)
		info := gopacket.CaptureInfo{Timestamp: time.Unix(int64(i), 0), CaptureLength: len(frame), Length: len(frame)}
		if err := w.WritePacket(info, frame); err != nil {
			return err
		}
	}
	return nil
}
