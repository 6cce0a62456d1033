// SPDX-License-Identifier: Apache-2.0

// Package mad is the wire format of connection management: MADs (IBTA 13.4) with the messages of
// the communication manager (IBTA 12.6), one message per file. Internal to this project.
//
// A message is a view: 256 bytes whose header its Parse function checked once. After that getters
// and setters neither allocate nor panic. A New function writes a header and returns the view on
// otherwise zero bytes. Fields are big-endian on the wire and host integers in Go. A setter keeps
// the low bits of a value that is too large for its field.
//
// A MAD travels as the payload of a UD SEND Only between queue pairs 1, with QKey; package rocev2
// builds and parses these datagrams. LAP and APR (alternate paths) do not exist here, because
// RoCEv2 has no alternate paths.
package mad
