// SPDX-License-Identifier: Apache-2.0

package samples

// The tests, each in the package that handles the packets.
var (
	engine  = Test{"rocev2/engine", "TestForgeries"}
	hidden  = Test{"rocev2/engine", "TestForgedNotificationHidesLater"}
	manager = Test{"rocev2/cm", "TestForgedMessages"}
	ingress = Test{"bpf", "TestForgedKinds"}
	flood   = Test{"bpf", "TestHelloFlood"}
)

var byToken = Needs{Token}

// Rows is the table.
var Rows = []Row{
	{"REQ", byToken, nil, "a connection that waits for an RTU, within the limits of the communication manager",
		[]string{"unproven_mad"}, []Test{engine, manager}},
	{"REP", byToken, Needs{CommID}, "a connection with a queue pair that the forger has chosen, while a REQ waits for its answer",
		[]string{"unproven_mad"}, []Test{engine, manager}},
	{"RTU", byToken, Needs{CommID}, "a connection with nobody, after a forged REQ",
		[]string{"unproven_mad"}, []Test{engine, manager}},
	{"REJ of a REQ", byToken, Needs{CommID}, "a connection is refused, while a REQ waits for its answer",
		[]string{"unproven_mad"}, []Test{engine, manager}},
	{"REJ of a connection", byToken, Needs{CommID, PeerCommID}, "a connection ends",
		[]string{"unproven_mad"}, []Test{engine, manager}},
	{"DREQ", byToken, Needs{CommID, PeerCommID, QPN}, "a connection ends",
		[]string{"unproven_mad"}, []Test{engine, manager}},
	{"data", byToken, Needs{QPN, PSN}, "a message or a WRITE is executed; a WRITE needs a key (32 bits) too",
		[]string{"unproven_data"}, []Test{engine}},
	{"ACK", byToken, Needs{QPN, PSN}, "a message that is outstanding completes too early",
		[]string{"unproven_ack"}, []Test{engine}},
	{"NAK", byToken, Needs{QPN, PSN}, "a connection with a message outstanding ends",
		[]string{"unproven_nak"}, []Test{engine}},
	{"NAK, as a sign of loss", byToken, Needs{Recent}, "a lower rate to the peer, down to `min_rate`",
		[]string{"rx_unproven"}, []Test{ingress}},
	{"CNP", byToken, nil, "a lower rate to the peer, down to `min_rate`, while this host sends to it",
		[]string{"rx_unproven", "unproven_cnp"}, []Test{ingress, engine}},
	{"OACK", byToken, Needs{QPN, Window}, "a message completes too early, while a window is outstanding",
		[]string{"unproven_oack"}, []Test{engine}},
	{"ONOTIFY", byToken, Needs{QPN, TwoWindows}, "a notification is delivered, and later ones may be lost",
		[]string{"unproven_onotify"}, []Test{engine, hidden}},
	{"HELLO", nil, nil, "its answer, at `--hello-rate`",
		[]string{"hello_limited"}, []Test{ingress, flood}},
	{"HELLO_ACK", Needs{Nonce}, Needs{Nonce}, "capabilities, token and stamped length of the peer",
		[]string{"hello_ack_forged"}, []Test{ingress}},
	{"ECHO", byToken, byToken, "feedback; a plain peer has none",
		[]string{"rx_token_wrong"}, []Test{ingress}},
	{"RATE_LIMIT", byToken, byToken, "a limit of what this host sends to the peer",
		[]string{"rx_token_wrong"}, []Test{ingress}},
	{"CREDIT", byToken, byToken, "a pre-credit message reaches the engine",
		[]string{"rx_token_wrong"}, []Test{ingress}},
}
