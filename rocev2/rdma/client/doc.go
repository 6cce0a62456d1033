// SPDX-License-Identifier: Apache-2.0

// Package client is the driver "server" of package rdma: the device of an interface whose agent serves
// it to all processes (`softroce-xdp attach --nic`, docs/run/device.md). Internal to this project. It
// needs no privileges but access to the server's socket.
//
// Package rdma imports it. An application imports it too if it needs a Config or the types of this
// package:
//
//	dev, err := rdma.Open(ctx, "eth0", rdma.WithConfig(client.Config{Spin: -1}))
//
// Posting and polling use memory that the server has mapped too, without system calls. All else is a
// message to the server.
//
// # Memory
//
// The server accesses memory of the arena without a copy: Device.Alloc returns such memory, and RegMR
// registers it. It stays mapped until Device.Free, also after Close. RegMR takes any other memory of the
// process too. The server accesses it through descriptors of /proc/self, which the client passes (package
// mr/clientmem): that takes about three times as long for a packet of 4 KB, and atomics on it are not atomic
// towards the process itself.
//
// The device references the memory of a region until Deregister, or until the server has ended all that the
// process had: peers access it by address and key, of which the garbage collector does not know.
//
// # The end of the server
//
// When the agent ends or is upgraded, the device is of no further use: an EventDeviceFatal, waiting
// calls return, and all calls fail with an error that wraps verbs.ErrGone. Close it and open it again.
package client
