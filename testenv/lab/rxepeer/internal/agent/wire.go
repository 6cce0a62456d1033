// SPDX-License-Identifier: Apache-2.0

// Package agent is the conversation between the host and the process that runs
// inside a machine: net/rpc calls over one virtio-serial port. The host asks, the
// agent answers; calls run side by side, so one that waits holds up no other.
package agent

import (
	"strconv"
	"time"
)

// PortName is the virtio-serial port's name, the same in qemu's arguments and in
// the guest's /sys/class/virtio-ports.
const PortName = "softroce.rxepeer"

// PortDir is the folder of the machine where further ports have the names of their users.
const PortDir = "/dev/virtio-ports"

// FurtherPort is the name of a further virtio-serial port in qemu's arguments: the machine that
// uses it need not be known when the emulator starts.
func FurtherPort(i int) string { return "port" + strconv.Itoa(i) }

// Service is the name that the agent registers its methods under.
const Service = "Agent"

// MaxChunk bounds the bytes of output or file content in one call.
const MaxChunk = 256 << 10

// Empty is for calls without arguments or results.
type Empty struct{}

// SetUp is what makes a machine that has booted a particular one: name, interfaces, clock, random numbers.
type SetUp struct {
	Host string
	NICs []NIC
	Rxe  bool // The agent adds the rxe devices rxe0, rxe1, ... on eth0, eth1, ...

	Time    time.Time
	Entropy []byte // Random bytes for the kernel's pool.
	Ports   []string
}

// NIC is the interface eth0, eth1, ... of its index in SetUp.NICs.
type NIC struct {
	MAC   string
	Addrs []string // CIDR
}

// Hello is the answer to SetUp.
type Hello struct {
	Kernel   string   // uname -r
	Problems []string // problems while booting and setting up; empty if all is well
}

// Start is a command to run. Timeout 0 means none.
type Start struct {
	Argv    []string
	Env     []string // KEY=value, added to the agent's own
	Dir     string
	Stdin   []byte
	Timeout time.Duration
}

// Output is what a command has printed since the last call, and its end.
type Output struct {
	Stdout, Stderr []byte
	Done           bool
	ExitCode       int    // -1 if a signal ended it
	Signal         string // name of the signal that ended it, or empty
	TimedOut       bool   // Start.Timeout passed and the agent killed it
}

// Signal asks for a signal to a command's process group.
type Signal struct {
	ID     uint64
	Number int
}

// Chunk is a piece of a file. A Put at offset 0 creates or truncates; a Get that
// returns fewer bytes than it was asked for has reached the end.
type Chunk struct {
	Path   string
	Offset int64
	Mode   uint32 // permission bits, on Put
	Len    int    // wanted, on Get
	Data   []byte
}
