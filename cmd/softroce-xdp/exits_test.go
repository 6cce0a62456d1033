// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/softroce/softroce-xdp/cmd/internal/cli"
	"github.com/softroce/softroce-xdp/testenv/lab/script"
)

// Every command has each code that needs no attached interface; the others are in testdata/net/exits.txt.
func TestExitCodes(t *testing.T) {
	good := captured(t, false)
	p := script.Program{
		Name: "softroce-xdp", Run: program.Run, Codes: cli.ExitNumbers(), Cases: exitCases, Places: []string{"pin-root", "run-dir"},
		Root:     program.Command,
		Files:    map[string]string{"good.pcap": string(good), "bad.pcap": string(captured(t, true)), "cut.pcap": string(good[:len(good)-7]), "empty": ""},
		Terminal: []string{"top"}, Closed: []string{"decode good.pcap", "decode bad.pcap"},
	}
	systemLoader := loaderConfig
	loaderConfig = t.TempDir() + "/loader.conf" // that of this machine stays
	defer func() { loaderConfig = systemLoader }()
	p.TestExits(t)
}

var exitCases = []script.ExitCase{
	{"atach", 1, `unknown command "atach" for "softroce-xdp": did you mean attach?`},
	{"--log-level loud status", 1, "choose one of debug, info, warn, error"},
	{"--config absent.yaml status", 1, "there is no file absent.yaml"},

	{"help policy set", 0, "softroce-xdp policy set [IF] --PARAMETER VALUE..."},
	{"help status nosuch", 1, `unknown command "nosuch" for "softroce-xdp status"`},
	{"help policy sett", 1, `unknown command "sett" for "softroce-xdp policy": did you mean set?`},

	{"decode good.pcap", 0, "2 packets: 2 RoCEv2"},
	{"decode", 1, "FILE is missing: softroce-xdp decode FILE"},
	{"decode good.pcap bad.pcap", 1, `"bad.pcap" is one argument too many: softroce-xdp decode FILE`},
	{"decode absent.pcap", 1, "absent.pcap"},
	{"decode empty", 1, "empty: the file is empty"},
	{"decode text", 1, "not a pcap or pcapng capture"},
	{"decode .", 1, "is a directory"},
	{"decode cut.pcap", 1, "cut.pcap: after packet 1: the file ends inside a packet"},
	{"decode bad.pcap", 3, "1 of 2 RoCEv2 packets have a wrong ICRC"},

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
	{"metrics a/b", 1, "is no name of an interface"},
	{"metrics nosuch7", 2, "not attached"},
	{"metrics --output absent/softroce.prom", 2, "no such file or directory"},
	{"metrics --output .", 1, "it is no regular file"},
	{"top", 1, "top needs a terminal"},
	{"policy", 0, "Available Commands:"},
	{"policy shwo", 1, "did you mean show?"},
	{"policy show a b", 1, "one argument too many"},
	{"policy show nosuch7", 2, "not attached"},
	{"policy set nosuch7", 1, "name at least one parameter"},
	{"policy set nosuch7 --target 1ms", 2, "not attached"},

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

	{"run", 1, "COMMAND is missing: softroce-xdp run [--dev IF] [--] COMMAND [ARG]..."},
	{"run nosuch7", 1, "nosuch7: executable file not found"},
	{"run --library text -- true", 1, "text is a file"},
	{"run -- true", 2, "there is no libibverbs.so.1 in "},
	{"verbs", 0, "Available Commands:"},
	{"verbs instal", 1, "did you mean install?"},
	{"verbs install x", 1, "takes no arguments"},
	{"verbs install", 2, "build it with `make verbs`"},
	{"verbs uninstall x", 1, "takes no arguments"},
	{"verbs uninstall", 0, "not installed: nothing to remove"},
	{"verbs status x", 1, "takes no arguments"},
	{"verbs status", 0, "softroce-xdp attach --nic IF"},

	{"key", 0, "Available Commands:"},
	{"key generat k", 1, "did you mean generate?"},
	{"key generate", 1, "FILE is missing: softroce-xdp key generate FILE"},
	{"key generate k", 0, ""},
	{"key generate text", 2, "the file exists, and is not overwritten"},
	{"key show", 1, "FILE is missing"},
	{"key show absent.key", 2, "no such file"},
	{"key show text", 2, "others may use this private key"},

	{"compute serve a", 1, "takes no arguments"},
	{"compute serve --cores 0", 1, "0"},
	{"compute serve --max-bytes 2G", 1, "--max-bytes 2G: choose 1 to 1GiB"},
	{"compute serve --listen :port", 1, `"port" is no port`},
	{"compute serve --dev nosuch7", 2, "not attached"},
	{"compute run h sum", 1, "OPERAND"},
	{"compute run h nothing f:int8", 1, "choose one of add, sum"},
	{"compute run h sum f", 1, "write FILE:TYPE"},
	{"compute run h sum /nosuchfile:int8", 2, "no such file"},
}

// captured is a capture of two packets, or with one ICRC wrong.
func captured(t *testing.T, bad bool) []byte {
	var b bytes.Buffer
	if err := writeCapture(&b, bad); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// Errors have no control characters but new lines and tabs, wherever the text comes from.
func TestControlCharactersInErrors(t *testing.T) {
	var out, errs bytes.Buffer
	if code := program.Run([]string{"--config", "/nowhere/\x1b[2J", "status"}, &out, &errs); code == cli.ExitOK {
		t.Errorf("exit code %d", code)
	}
	if s := errs.String(); strings.Contains(s, "\x1b") || !strings.Contains(s, `/nowhere/\u001b[2J`) {
		t.Errorf("%q", s)
	}
}
