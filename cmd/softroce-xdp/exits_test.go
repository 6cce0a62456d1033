// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/cobra"
)

// exitCase is a command line, its exit code and what the user is told.
type exitCase struct {
	line string
	code int
	says string // on stderr; for 0 on stdout
}

// exitCases has every command with each code that needs no attached interface; the
// others are in testdata/net/exits.txt.
var exitCases = []exitCase{
	{"", 0, "Available Commands:"},
	{"--version", 0, "softroce-xdp dev"},
	{"atach", 1, `unknown command "atach" for "softroce-xdp": did you mean attach?`},
	{"--nosuch", 1, "unknown flag: --nosuch"},
	{"--log-level loud status", 1, "choose one of debug, info, warn, error"},
	{"--config absent.yaml status", 1, "there is no file absent.yaml"},

	{"help", 0, "Available Commands:"},
	{"help policy set", 0, "softroce-xdp policy set [IF] --PARAMETER VALUE..."},
	{"help nosuch", 1, `unknown command "nosuch" for "softroce-xdp"`},
	{"help status nosuch", 1, `unknown command "nosuch" for "softroce-xdp status"`},
	{"help policy sett", 1, `unknown command "sett" for "softroce-xdp policy": did you mean set?`},
	{"help --nosuch", 1, "unknown flag: --nosuch"},
	{"completion", 0, "Available Commands:"},
	{"completion nosuch", 1, `unknown command "nosuch" for "softroce-xdp completion"`},
	{"completion bash", 0, "complete -o default"},
	{"completion bash x", 1, `"x": softroce-xdp completion bash takes no arguments`},
	{"completion zsh", 0, "compdef"},
	{"completion zsh x", 1, "takes no arguments"},
	{"completion fish", 0, "complete -c"},
	{"completion fish x", 1, "takes no arguments"},
	{"completion powershell", 0, "Register-ArgumentCompleter"},
	{"completion powershell x", 1, "takes no arguments"},

	{"version", 0, "table layout"},
	{"version x", 1, `"x": softroce-xdp version takes no arguments`},
	{"version --json=maybe", 1, `"maybe" is neither true nor false: write --json alone`},
	{"man out", 0, ""},
	{"man", 1, "DIR is missing: softroce-xdp man DIR"},
	{"man text", 2, "not a directory"},

	{"decode good.pcap", 0, "2 packets: 2 RoCEv2"},
	{"decode", 1, "FILE is missing: softroce-xdp decode FILE"},
	{"decode good.pcap bad.pcap", 1, `"bad.pcap" is one argument too many: softroce-xdp decode FILE`},
	{"decode absent.pcap", 1, "absent.pcap"},
	{"decode empty", 1, "empty: the file is empty"},
	{"decode text", 1, "not a pcap or pcapng capture"},
	{"decode .", 1, "is a directory"},
	{"decode cut.pcap", 1, "cut.pcap: after packet 1: the file ends inside a packet"},
	{"decode bad.pcap", 3, "1 of 2 RoCEv2 packets have a wrong ICRC"},

	{"sim", 0, "Available Commands:"},
	{"sim runn", 1, "did you mean run?"},
	{"sim list", 0, "incast-8"},
	{"sim list x", 1, "takes no arguments"},
	{"sim show incast-8", 0, "name: incast-8"},
	{"sim show", 1, "NAME is missing"},
	{"sim show incst-8", 1, "did you mean incast-8?"},
	{"sim run good.yaml", 0, "VERDICT"},
	{"sim run", 1, "SCENARIO... is missing"},
	{"sim run text.yaml", 1, "text.yaml: line 1: expected keys"},
	{"sim run missed.yaml", 0, "MISSED utilisation"},
	{"sim run --check missed.yaml", 3, "1 criterion missed"},
	{"sim run good.yaml --csv absent/x.csv", 2, "no such file or directory"},
	{"sim run good.yaml --plot text", 2, "not a directory"},

	{"attach", 1, "name the interfaces to attach"},
	{"attach nosuch7", 2, "no such interface"},
	{"attach --rate 7 nosuch7", 1, "a rate of 7 bit/s is too low: choose at least 8"},
	{"detach", 1, "name the interfaces to detach"},
	{"detach --all", 0, "no interface is attached"},
	{"detach nosuch7", 2, "not attached"},
	{"clean", 0, "nothing to remove"},
	{"clean x", 1, "takes no arguments"},
	{"status", 0, "no interface is attached"},
	{"status a/b", 1, "is no name of an interface"},
	{"status nosuch7", 2, "not attached"},
	{"status --check", 3, "no interface is attached"},
	{"status --check nosuch7", 3, "not attached"},
	{"features", 1, "IF is missing"},
	{"features nosuch7", 2, "nosuch7"},
	{"agent", 1, "IF is missing"},
	{"agent nosuch7", 2, "not attached"},
	{"table a b", 1, `"b" is one argument too many: softroce-xdp table [IF]`},
	{"table --watch=x", 1, `"x" is neither true nor false`},
	{"table nosuch7", 2, "not attached"},
	{"stats a b", 1, "one argument too many"},
	{"stats nosuch7", 2, "not attached"},
	{"metrics", 0, "softroce_interfaces 0"},
	{"metrics --destinations -1", 1, `"-1" is not a number from 0 to`},
	{"metrics --timeout 0s", 1, "0s"},
	{"metrics --pool :7178", 1, "the host is missing"},
	{"metrics --pool h,h:7178", 1, "h:7178 stands twice"},
	{"metrics a/b", 1, "is no name of an interface"},
	{"metrics nosuch7", 2, "not attached"},
	{"metrics --pool h", 2, "--pool needs a device that an agent serves"},
	{"metrics --pool h --dev nosuch7", 2, "--pool needs a device that an agent serves"},
	{"metrics --output absent/softroce.prom", 2, "no such file or directory"},
	{"metrics --output .", 1, "it is no regular file"},
	{"top", 1, "top needs a terminal"},
	{"policy", 0, "Available Commands:"},
	{"policy shwo", 1, "did you mean show?"},
	{"policy show a b", 1, "one argument too many"},
	{"policy show nosuch7", 2, "not attached"},
	{"policy set nosuch7", 1, "name at least one parameter"},
	{"policy set nosuch7 --target 1ms", 2, "not attached"},

	{"card", 0, "Available Commands:"},
	{"card tabel", 1, "did you mean table?"},
	{"card attach", 1, "DEV is missing: softroce-xdp card attach DEV"},
	{"card attach ./nosuch7", 2, "no such file or directory"},
	{"card attach unix:nosuch7", 2, "no such file or directory"},
	{"card attach text", 1, `"text" is no card`},
	{"card attach ./text", 2, "the BAR has 20 bytes, a softroce card has 536870912"},
	{"card attach .", 1, `"." is no card`},
	{"card attach ./", 2, "is a directory"},
	{"card status", 0, "no card is attached"},
	{"card status --check", 3, "no card is attached"},
	{"card status a", 1, `"a" is no card`},
	{"card table", 1, "no card is attached: name one"},
	{"card table 99:1f.7", 2, "there is no PCI device 0000:99:1f.7"},
	{"card stats --watch=x", 1, "neither true nor false"},
	{"card stats unix:nosuch7", 2, "no such file or directory"},
	{"card policy show a b", 1, "one argument too many"},
	{"card policy show unix:nosuch7", 2, "no such file or directory"},
	{"card policy set unix:nosuch7", 1, "name at least one parameter"},
	{"card policy set unix:nosuch7 --target 1ms", 2, "no such file or directory"},
	{"card precredit show a b", 1, "one argument too many"},
	{"card precredit show unix:nosuch7", 2, "no such file or directory"},
	{"card precredit enable unix:nosuch7 --budget 2G", 1, "not between 1 byte and 1G"},
	{"card precredit enable unix:nosuch7", 2, "no such file or directory"},
	{"card precredit disable a b", 1, "one argument too many"},
	{"card precredit disable unix:nosuch7", 2, "no such file or directory"},
	{"card ddr read unix:nosuch7 0", 1, "DEV ADDRESS LENGTH is missing"},
	{"card ddr read unix:nosuch7 0 1", 2, "no such file or directory"},
	{"card ddr write unix:nosuch7", 1, "DEV ADDRESS is missing"},
	{"card ddr write unix:nosuch7 0", 2, "no such file or directory"},
	{"card regs", 1, "DEV [BLOCK] is missing"},
	{"card regs unix:nosuch7 dset", 1, "did you mean dest?"},
	{"card regs unix:nosuch7", 2, "no such file or directory"},
	{"card model", 1, "unix:PATH is missing"},
	{"card model text", 1, "write unix: and the path of the socket"},
	{"card model unix:text", 2, "is no socket"},

	{"perf", 0, "Available Commands:"},
	{"perf knit", 1, `unknown command "knit" for "softroce-xdp perf"`},
	{"perf server x", 1, "takes no arguments"},
	{"perf server --dev nosuch7", 2, "not attached"},
	{"perf write", 1, "HOST[:PORT] is missing: softroce-xdp perf write HOST[:PORT]"},
	{"perf write h --duration 1s --messages 3", 1, "choose --duration or --messages, not both"},
	{"perf write h --dev nosuch7", 2, "not attached"},
	{"perf read a b", 1, "one argument too many"},
	{"perf read h --dev nosuch7", 2, "not attached"},
	{"perf send", 1, "HOST[:PORT] is missing"},
	{"perf send h --dev nosuch7", 2, "not attached"},
	{"perf fetch-add", 1, "HOST[:PORT] is missing"},
	{"perf fetch-add h --dev nosuch7", 2, "not attached"},
	{"perf compare-swap", 1, "HOST[:PORT] is missing"},
	{"perf compare-swap h --dev nosuch7", 2, "not attached"},

	{"ping", 1, "HOST[:PORT] is missing: softroce-xdp ping HOST[:PORT]"},
	{"ping a b", 1, "one argument too many"},
	{"ping :7174", 1, "the host is missing: write HOST or HOST:PORT"},
	{"ping h:port", 1, `"port" is no port: write a number from 1 to 65535`},
	{"ping h --size 65K", 1, "--size 65K: at most 64KiB"},
	{"ping h -c 0", 1, "0"},
	{"ping h --dev nosuch7", 2, "not attached"},
	{"ping h", 2, "no interface is attached"},
	{"ping --listen a b", 1, "one argument too many"},
	{"ping --listen --count 3", 1, "--count is for the client: leave it out with --listen"},
	{"ping --listen --dev nosuch7", 2, "not attached"},

	{"ping h --encrypt", 1, "--encrypt needs --key and --peers"},
	{"ping h --key text", 1, "--key and --peers go with --encrypt"},
	{"ping h --encrypt --key absent.key --peers text", 2, "--key: open absent.key"},
	{"ping --listen --encrypt --key text --peers text", 2, "chmod 600"},
	{"perf write h --encrypt --key absent.key --peers text", 2, "--key: open absent.key"},
	{"perf server --encrypt", 1, "--encrypt needs --key and --peers"},

	{"key", 0, "Available Commands:"},
	{"key generat k", 1, "did you mean generate?"},
	{"key generate", 1, "FILE is missing: softroce-xdp key generate FILE"},
	{"key generate k", 0, ""},
	{"key generate text", 2, "the file exists, and is not overwritten"},
	{"key show", 1, "FILE is missing"},
	{"key show absent.key", 2, "no such file"},
	{"key show text", 2, "others may use this private key"},

	{"pool serve a", 1, "takes no arguments"},
	{"pool serve --bytes 1X", 1, "--bytes"},
	{"pool serve --bytes 1K", 1, "--bytes 1K: choose 1 to 1048576 times --slab"},
	{"pool serve --slab 6K", 1, "--slab 6K: choose a multiple of 4K up to 1G"},
	{"pool serve --slab 1X", 1, "--slab"},
	{"pool serve --grace 2h", 1, "2h"},
	{"pool serve --listen :port", 1, `"port" is no port`},
	{"pool serve --dev nosuch7", 2, "not attached"},
	{"pool join", 1, "HOST[:PORT] is missing"},
	{"pool join h --directory http://127.0.0.1:1", 1, "give one of them"},
	{"pool join h --mirror", 1, "--mirror needs several servers: give --directory"},
	{"pool join --directory h", 1, "write http://HOST:2379"},
	{"pool serve --directory h", 1, "write http://HOST:2379"},
	{"pool serve --directory http://h --name a/b", 1, "a name of a server has"},
	{"pool status --directory http://127.0.0.1:1", 2, "does etcd run there?"},
	{"pool status h --directory http://h", 1, "give one of them"},
	{"pool join :7178", 1, "the host is missing"},
	{"pool join h --bytes 1X", 1, "--bytes"},
	{"pool join h --period 1ms", 1, "1ms"},
	{"pool join h --name a-name-that-is-too-long", 1, "1 to 20 bytes"},
	{"pool join h --dev nosuch7", 2, "not attached"},
	{"pool map", 1, "HOST[:PORT] is missing"},
	{"pool map :7178", 1, "the host is missing"},
	{"pool map h --bytes 6K", 1, "--bytes 6K: choose a multiple of 4K up to"},
	{"pool map h --local 4K", 1, "--local 4K: choose at least 64K"},
	{"pool map h --local 1X", 1, "--local"},
	{"pool map h --name a-name-that-is-too-long", 1, "1 to 20 bytes"},
	{"pool map h --deadline 0s", 1, "0s"},
	{"pool map h --dev nosuch7", 2, "not attached"},
	{"pool leave", 1, "HOST[:PORT] is missing"},
	{"pool leave h --name a-name-that-is-too-long", 1, "1 to 20 bytes"},
	{"pool leave h --dev nosuch7", 2, "not attached"},
	{"pool status", 1, "HOST[:PORT] is missing"},
	{"pool status h:port", 1, `"port" is no port`},
	{"pool status h --dev nosuch7", 2, "not attached"},
	{"pool top", 1, "HOST[:PORT] is missing"},
	{"pool top h:port", 1, `"port" is no port`},
	{"pool top h", 1, "pool top needs a terminal: use `softroce-xdp pool status` here"},
	{"pool top h --interval 1us", 1, "1us"},
	{"pool bench", 1, "HOST[:PORT] is missing"},
	{"pool bench h --bytes 1K", 1, "--bytes 1K: choose 1M to 1T"},
	{"pool bench h --local 1X", 1, "--local"},
	{"pool bench h --local 64M", 1, "--local 64M: choose at least 64K, and less than --bytes"},
	{"pool bench h --name a-name-that-is-too-long", 1, "1 to 20 bytes"},
	{"pool bench h --dev nosuch7", 2, "not attached"},
	{"compute serve a", 1, "takes no arguments"},
	{"compute serve --cores 0", 1, "0"},
	{"compute serve --max-bytes 2G", 1, "--max-bytes 2G: choose 1 to 1GiB"},
	{"compute serve --listen :port", 1, `"port" is no port`},
	{"compute serve --dev nosuch7", 2, "not attached"},
	{"compute run h sum", 1, "OPERAND"},
	{"compute run h nothing f:int8", 1, "choose one of add, sum"},
	{"compute run h sum f", 1, "write FILE:TYPE"},
	{"compute run h sum /nosuchfile:int8", 2, "no such file"},
	{"compute allreduce a", 1, "takes no arguments"},
	{"compute allreduce", 1, "--next is missing"},
	{"compute allreduce --next h --nodes 3 --rank 3", 1, "choose 0 to 2"},
	{"compute allreduce --next h --bytes 12", 1, "--bytes 12: choose a multiple of 8"},
	{"compute allreduce --next h --dev nosuch7", 2, "not attached"},
}

// scenarioText is a run of some milliseconds; %s is what its utilisation must be.
const scenarioText = `name: tiny
title: Two to one
topology: {kind: star, hosts: 3}
links: {host: 10Gbit/s, delay: 1us}
schemes: [dcqcn]
traffic:
  - flows: {from: 1-2, to: 0}
measure: {from: 1ms, to: 2ms, at: down 0}
seeds: [1]
criteria: {utilisation: ">= `

// exitFiles writes what the cases name into a directory of their own, and goes there.
func exitFiles(t *testing.T) {
	t.Chdir(t.TempDir())
	good := captured(t, false)
	for name, text := range map[string]string{
		"good.pcap": string(good), "bad.pcap": string(captured(t, true)), "cut.pcap": string(good[:len(good)-7]),
		"empty": "", "text": "This is no capture.\n", "text.yaml": "This is no scenario.\n",
		"good.yaml": scenarioText + "0.1\"}\n", "missed.yaml": scenarioText + "1.1\"}\n",
	} {
		if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
}

// captured is a capture of two packets, or with one ICRC wrong.
func captured(t *testing.T, bad bool) []byte {
	var b bytes.Buffer
	if err := writeCapture(&b, bad); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// inPlace adds the places of pins and state that belong to the test.
func inPlace(t *testing.T, line string) []string {
	here, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	return append([]string{"--pin-root", filepath.Join(here, "pins"), "--run-dir", filepath.Join(here, "run")}, strings.Fields(line)...)
}

func TestExitCodes(t *testing.T) {
	exitFiles(t)
	for _, c := range exitCases {
		var out, errOut bytes.Buffer
		code := run(inPlace(t, c.line), &out, &errOut)
		said := errOut.String()
		if c.code == 0 {
			said = out.String()
		}
		if code != c.code || !strings.Contains(said, c.says) {
			t.Errorf("softroce-xdp %s: exits %d, want %d with %q; it says: %.300s%.300s", c.line, code, c.code, c.says, errOut.String(), out.String())
		}
		if !exitDocumented(code) {
			t.Errorf("softroce-xdp %s: exit code %d is not documented", c.line, code)
		}
	}
}

func exitDocumented(code int) bool {
	return slices.ContainsFunc(exitCodes, func(c exitCode) bool { return c.number == code })
}

// Every command has a row for a wrong command line and one for a right one.
func TestExitCodesOfEveryCommand(t *testing.T) {
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			walk(sub)
		}
		if c.HasSubCommands() || c.Name() == "help" {
			return
		}
		path := strings.TrimPrefix(c.CommandPath(), "softroce-xdp ")
		var wrong, right bool
		for _, x := range exitCases {
			if x.line == path || strings.HasPrefix(x.line, path+" ") {
				wrong, right = wrong || x.code == exitUsage, right || x.code != exitUsage
			}
		}
		// Without a terminal, these are always wrong commands.
		if !wrong || !right && path != "top" && path != "pool top" {
			t.Errorf("%s: a row with code 1: %v, with another: %v", path, wrong, right)
		}
	}
	root := newRoot(&app{})
	ownHelp(root)
	walk(root)
}

// full is an output that takes so many writes.
type full struct {
	room int
	err  error
}

func (f *full) Write(b []byte) (int, error) {
	if f.room--; f.room < 0 {
		return 0, f.err
	}
	return len(b), nil
}

// What could not be written is no success, whichever command has written it.
func TestOutputLost(t *testing.T) {
	exitFiles(t)
	noSpace := &os.PathError{Op: "write", Path: "/dev/stdout", Err: syscall.ENOSPC}
	for _, c := range exitCases {
		if c.code != 0 || c.says == "" {
			continue
		}
		for room := range 2 {
			var errOut bytes.Buffer
			var count full
			count.room = 1 << 30
			run(inPlace(t, c.line), &count, io.Discard)
			if 1<<30-count.room <= room {
				continue // everything was written by then
			}
			code := run(inPlace(t, c.line), &full{room, noSpace}, &errOut)
			if code != exitSystem || strings.Count(errOut.String(), "no space left on device") != 1 {
				t.Errorf("softroce-xdp %s with room for %d writes: exits %d and says %q", c.line, room, code, errOut.String())
			}
		}
	}
}

// A pipe that its reader has closed gives an exit code and no message.
func TestOutputClosed(t *testing.T) {
	exitFiles(t)
	for _, line := range []string{"sim list", "decode good.pcap", "decode bad.pcap", "help"} {
		var errOut bytes.Buffer
		code := run(inPlace(t, line), &full{0, &os.PathError{Op: "write", Path: "/dev/stdout", Err: syscall.EPIPE}}, &errOut)
		if code != exitSystem || errOut.Len() != 0 {
			t.Errorf("softroce-xdp %s: exits %d and says %q", line, code, errOut.String())
		}
	}
}
