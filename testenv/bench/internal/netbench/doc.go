// SPDX-License-Identifier: Apache-2.0

// Package netbench has the commands of bench about an attached interface: what it shows (demo), what it costs TCP
// (tcp) and a router (forwarder), RoCEv2 traffic for it (load), and the engine compared with Linux rxe (rxe).
package netbench
