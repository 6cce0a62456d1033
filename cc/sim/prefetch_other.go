// SPDX-License-Identifier: Apache-2.0

//go:build !amd64

package sim

func prefetchChunk(*chunk)         {}
func prefetchPacket(*packet)       {}
func prefetchMeta(*packetMeta)     {}
func prefetchPort(*port)           {}
func prefetchQueues(*port)         {}
func prefetchIngress(*ingress)     {}
func prefetchSlot(*slot)           {}
func prefetchHost(*host)           {}
func prefetchSender(*Flow)         {}
func prefetchReceiver(*Flow)       {}
func prefetchPacer(*Pacer)         {}
func prefetchSelective(*selective) {}
