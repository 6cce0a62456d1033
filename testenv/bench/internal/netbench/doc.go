// SPDX-License-Identifier: Apache-2.0

// Package netbench has the commands of bench that run the product's commands on hosts: what an attached interface shows
// (demo), what it costs TCP (tcp) and a router (forwarder), RoCEv2 traffic for it (load), perf in many forms (sweep),
// the engine compared with Linux rxe (rxe), a memory pool at work (pooldemo) and compared with swap (pool).
package netbench
