// SPDX-License-Identifier: Apache-2.0

// Package etcd keeps the directory of a memory pool in etcd (3.4 or newer). Internal to this
// project.
//
//	d, err := etcd.Open("http://10.0.0.9:2379,http://10.0.0.10:2379")
//
// It uses the JSON interface of etcd (grpc-gateway), which every etcd serves at its client port. The Go client
// of etcd brings gRPC and protobuf, 10 MB of a program that is also the agent.
//
// Each server has one key, PREFIX/servers/NAME, whose value is a directory.Server as JSON. The key is
// attached to an etcd lease of TTL, so that it ends with its server.
package etcd
