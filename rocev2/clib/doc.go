// SPDX-License-Identifier: Apache-2.0

// Package clib has the C libraries of the device, libibverbs.so.1 in src and librdmacm.so.1 in rdmacm, and their tests.
// Internal to this project.
//
// src/softroce_proto.h has the messages of package proto, the entries of package wqe and the rings of package ring for
// C. The tests of this package write it from the Go sources, and compile a C program that checks that both languages
// encode and decode the same bytes.
package clib
