// SPDX-License-Identifier: Apache-2.0

// Package rxepeer boots virtual machines that speak RoCEv2 with the Linux
// kernel's own driver, rdma_rxe, as the peer that our product is tested against.
//
// A machine is a Debian kernel and a small Debian user land (perftest, rdma-core,
// iproute2, bpftool) in one initrd, run by qemu without KVM. Its network card is a
// tap on a bridge in a network namespace, so it plugs into any topology that Go
// code can build. Commands enter over a virtio-serial port, not over the network,
// so a machine stays reachable while a test breaks its interface.
//
//	net, err := rxepeer.NewNet(1500)
//	a, err := rxepeer.Boot(ctx, rxepeer.Config{Name: "a", NICs: []rxepeer.NIC{{Net: net, Addrs: ...}}})
//	res, err := a.Run(ctx, "ibv_devices")
//
// The first Boot on a machine builds the image (see EnsureImage), which needs the
// network, root for the taps, and the tools that CheckHost names.
package rxepeer
