// SPDX-License-Identifier: Apache-2.0
//
// Serves the simulated card through a unix stream socket, one client at a time. The protocol
// is in docs/card/card-registers.md, and the messages that only a simulator has are in sim.go.
//
// usage: program SOCKET [wall]
//
// wall: the clock of the card follows CLOCK_MONOTONIC; otherwise it stands still until a
// client sets it. The program ends when its standard input ends.
#include "card.h"

#include <cerrno>
#include <cinttypes>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <memory>
#include <string>

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace {

// The values of the protocol (wire.go and sim.go).
enum { R32 = 1, R64 = 2, W32 = 3, W64 = 4, CLOCK = 0x40, STEP = 0x41, CYCLES = 0x42, PACKET = 0x43, STALL = 0x44 };
enum { OK = 0, OTHER_VERSION = 1, BUSY = 2 };
constexpr char magic[] = "SRCS";
constexpr uint8_t version = 1;
constexpr size_t head_bytes = 4, max_body = 1024;
constexpr uint64_t address_space = uint64_t(1) << 29;
constexpr uint64_t max_steps = 1000000000;
constexpr size_t packet_numbers = 9;
constexpr uint64_t elements = 1024;
constexpr unsigned task_clocks = 1000; // between two looks for a message

[[noreturn]] void die(const char *what)
{
	std::fprintf(stderr, "simulator: %s: %s\n", what, std::strerror(errno));
	std::exit(1);
}

// follow sets the clock of the card to CLOCK_MONOTONIC.
void follow(Card &card)
{
	timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	card.set_clock(uint64_t(t.tv_sec) * 1000000000 + t.tv_nsec, false);
}

// Session is one client.
class Session {
	Card &card;
	int fd;
	bool wall;
	std::string in, out;
	bool welcome = false;

	uint64_t number(const char *p) const
	{
		uint64_t v;
		std::memcpy(&v, p, sizeof(v)); // little-endian, as the machine
		return v;
	}

	void answer(uint8_t op, uint8_t status, const void *body, size_t n)
	{
		uint8_t head[head_bytes] = {op, status, uint8_t(n), uint8_t(n >> 8)};
		out.append(reinterpret_cast<char *>(head), sizeof(head));
		out.append(static_cast<const char *>(body), n);
	}

	void answer(uint8_t op, uint64_t value) { answer(op, 0, &value, sizeof(value)); }

	bool refuse(uint8_t op, const std::string &why)
	{
		answer(op, 1, why.data(), why.size());
		send();
		return false;
	}

	// access executes a message of the register bus.
	bool access(uint8_t op, const char *body, size_t n)
	{
		unsigned width = op == R32 || op == W32 ? 4 : 8;
		bool write = op == W32 || op == W64;

		if (n != (write ? 16 : 8))
			return refuse(op, "wrong length");
		uint64_t addr = number(body);
		if (addr % width || addr > address_space - width)
			return refuse(op, "the address space has no such address");
		uint64_t value = card.access(write, addr, width, write ? number(body + 8) : 0);
		if (!write)
			answer(op, value);
		return true;
	}

	bool execute(uint8_t op, const char *body, size_t n)
	{
		if (wall)
			follow(card);
		switch (op) {
		case R32: case R64: case W32: case W64:
			return access(op, body, n);
		case CLOCK:
			if (n != 16 || number(body + 8) > 1)
				return refuse(op, "the clock needs a time, and 1 if it runs, 0 if it stands still");
			card.set_clock(number(body), number(body + 8));
			return true;
		case STEP:
			if (n != 8 || number(body) > max_steps)
				return refuse(op, "a step needs a number of cycles, at most 1000000000");
			for (uint64_t i = number(body); i; i--)
				card.clock();
			return true;
		case PACKET: {
			uint64_t v[packet_numbers];
			if (n != sizeof(v) || number(body) >= elements)
				return refuse(op, "a packet needs nine numbers, and an element of the destination table");
			std::memcpy(v, body, n);
			card.packet(v);
			return true;
		}
		case STALL:
			if (n != 8 || number(body) > 3)
				return refuse(op, "the flags of the cores are 0 to 3");
			card.stall(number(body) & 1);
			card.hold = number(body) & 2;
			return true;
		case CYCLES:
			answer(op, card.cycles);
			return true;
		}
		return refuse(op, "the message is unknown");
	}

	// next executes a message that has arrived whole. It returns false if the client must go.
	bool next(size_t &at, bool &more)
	{
		more = in.size() - at >= head_bytes;
		if (!more)
			return true;
		const char *head = in.data() + at;
		size_t n = uint8_t(head[2]) | size_t(uint8_t(head[3])) << 8;
		if (n > max_body)
			return refuse(head[0], "the message is too long");
		more = in.size() - at >= head_bytes + n;
		if (!more)
			return true;
		at += head_bytes + n;
		return execute(head[0], head + head_bytes, n);
	}

	bool handshake()
	{
		if (in.size() < 8)
			return true;
		if (in.compare(0, 4, magic))
			return false;
		uint8_t status = uint8_t(in[4]) == version ? OK : OTHER_VERSION;
		hello(status);
		in.erase(0, 8);
		welcome = true;
		return status == OK && send();
	}

public:
	Session(Card &card, int fd, bool wall) : card(card), fd(fd), wall(wall) {}
	~Session() { close(fd); }
	Session(const Session &) = delete;
	Session &operator=(const Session &) = delete;
	int descriptor() const { return fd; }

	void hello(uint8_t status)
	{
		char text[8] = {magic[0], magic[1], magic[2], magic[3], char(version), char(status), 0, 0};
		out.append(text, sizeof(text));
		out.append(reinterpret_cast<const char *>(&address_space), sizeof(address_space));
	}

	bool send()
	{
		size_t at = 0;
		while (at < out.size()) {
			ssize_t n = write(fd, out.data() + at, out.size() - at);
			if (n < 0)
				return false;
			at += n;
		}
		out.clear();
		return true;
	}

	// receive reads what has arrived and executes it. It returns false at the end.
	bool receive()
	{
		char buf[1 << 16];
		ssize_t n = read(fd, buf, sizeof(buf));
		if (n <= 0)
			return false;
		in.append(buf, n);
		if (!welcome && !handshake())
			return send() && false;
		if (!welcome)
			return true;
		size_t at = 0;
		for (bool more = true; more;)
			if (!next(at, more))
				return false;
		in.erase(0, at);
		return send();
	}
};

int listen_at(const char *path)
{
	sockaddr_un addr{};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	addr.sun_family = AF_UNIX;
	if (std::strlen(path) >= sizeof(addr.sun_path)) {
		errno = ENAMETOOLONG;
		die(path);
	}
	std::strcpy(addr.sun_path, path);
	if (fd < 0 || bind(fd, reinterpret_cast<sockaddr *>(&addr), sizeof(addr)) || listen(fd, 8))
		die(path);
	return fd;
}

// accept_client accepts a client with a limit of the time that the simulation waits for it.
int accept_client(int listener)
{
	int fd = accept(listener, nullptr, nullptr);
	timeval limit{10, 0};

	if (fd < 0)
		die("accept");
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	return fd;
}

// refuse_busy answers a second client, also if its first message has not arrived within a second.
void refuse_busy(Card &card, int fd)
{
	Session second(card, fd, false);
	char first[8];
	timeval limit{1, 0};

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	if (recv(fd, first, sizeof(first), MSG_WAITALL) == 0)
		return; // the client is gone
	second.hello(BUSY);
	second.send();
}

} // namespace

int main(int argc, char **argv)
{
	if (argc < 2 || argc > 3 || (argc == 3 && std::strcmp(argv[2], "wall"))) {
		std::fprintf(stderr, "usage: %s SOCKET [wall]\n", argv[0]);
		return 2;
	}
	signal(SIGPIPE, SIG_IGN);
	Card card;
	int listener = listen_at(argv[1]);
	std::unique_ptr<Session> client;
	char ignored[256];

	for (;;) {
		pollfd fds[] = {{0, POLLIN, 0}, {listener, POLLIN, 0}, {client ? client->descriptor() : -1, POLLIN, 0}};
		// Tasks are executed also while no message comes.
		if (poll(fds, 3, card.working() ? 0 : -1) < 0)
			die("poll");
		if (card.working() && argc == 3)
			follow(card);
		for (unsigned i = 0; i < task_clocks && card.working(); i++)
			card.clock();
		if (fds[0].revents && read(0, ignored, sizeof(ignored)) <= 0)
			return 0;
		if (fds[2].revents && !client->receive())
			client.reset();
		else if (fds[1].revents && client)
			refuse_busy(card, accept_client(listener));
		else if (fds[1].revents)
			client = std::make_unique<Session>(card, accept_client(listener), argc == 3);
	}
}
