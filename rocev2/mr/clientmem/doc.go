// SPDX-License-Identifier: Apache-2.0

// Package clientmem is memory of an application that a NIC in another process uses (S2): an arena that both have mapped
// (arena_doc.go), and memory that the application has allocated itself (process_doc.go). Internal to this project.
package clientmem
