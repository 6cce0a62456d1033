// SPDX-License-Identifier: Apache-2.0
//
// Serves the simulated card through a unix stream socket, one client at a time. The protocol
// is in docs/card-registers.md, and the messages that only a simulator has are in sim.go.
//
// usage: program SOCKET [wall]
//
// wall: the clock of the card follows CLOCK_MONOTONIC; otherwise it stands still until a
// client sets it. The program ends when its standard input ends.
#include "Vsoftroce_card.h"
#include "verilated.h"

#include <array>
#include <cerrno>
#include <cinttypes>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace {

// The values of the protocol (wire.go and sim.go).
enum { R32 = 1, R64 = 2, W32 = 3, W64 = 4, CLOCK = 0x40, STEP = 0x41, CYCLES = 0x42, PACKET = 0x43 };
enum { OK = 0, OTHER_VERSION = 1, BUSY = 2 };
constexpr char magic[] = "SRCS";
constexpr uint8_t version = 1;
constexpr size_t head_bytes = 4, max_body = 1024;
constexpr uint64_t address_space = uint64_t(1) << 29;
constexpr uint64_t max_steps = 1000000000;
constexpr uint64_t mask48 = (uint64_t(1) << 48) - 1;
constexpr size_t packet_numbers = 9;
constexpr uint64_t elements = 1024;

// An access or a packet that takes longer is a fault of the RTL.
constexpr unsigned max_clocks = 1000000;

[[noreturn]] void die(const char *what)
{
	std::fprintf(stderr, "simulator: %s: %s\n", what, std::strerror(errno));
	std::exit(1);
}

// Memory is the DDR behind the card, by pages. A page that was never written reads 0.
class Memory {
	static constexpr uint64_t page_words = 512;
	using Page = std::array<uint64_t, page_words>;
	std::unordered_map<uint64_t, std::unique_ptr<Page>> pages;

public:
	uint64_t read(uint64_t addr) const
	{
		auto at = pages.find(addr / 8 / page_words);
		return at == pages.end() ? 0 : (*at->second)[addr / 8 % page_words];
	}

	void write(uint64_t addr, uint64_t value, unsigned enable)
	{
		auto &page = pages[addr / 8 / page_words];
		uint64_t mask = (enable & 1 ? 0xffffffff : 0) | (enable & 2 ? 0xffffffff00000000 : 0);
		if (!page)
			page = std::make_unique<Page>();
		uint64_t &word = (*page)[addr / 8 % page_words];
		word = (word & ~mask) | (value & mask);
	}
};

// Card clocks the RTL.
class Card {
	VerilatedContext context;
	Vsoftroce_card top{&context};
	Memory ddr;

public:
	uint64_t cycles = 0;

	Card()
	{
		top.rst = 1;
		clock();
		clock();
		top.rst = 0;
		until([this] { return top.ready; });
		cycles = 0;
	}

	// clock is one clock of the card, and of its DDR.
	void clock()
	{
		top.ddr_done = 0;
		if (top.ddr_valid) {
			if (top.ddr_write)
				ddr.write(top.ddr_addr, top.ddr_wdata, top.ddr_enable);
			top.ddr_rdata = ddr.read(top.ddr_addr);
			top.ddr_done = 1;
		}
		top.clk = 1;
		top.eval();
		top.clk = 0;
		top.eval();
		cycles++;
	}

	template <typename Condition> void until(Condition reached)
	{
		for (unsigned n = 0; !reached(); n++) {
			if (n == max_clocks) {
				std::fprintf(stderr, "simulator: no end after %u clocks\n", n);
				std::exit(1);
			}
			clock();
		}
	}

	// access is one access of the register bus, of 4 or 8 bytes.
	uint64_t access(bool write, uint64_t addr, unsigned width, uint64_t value)
	{
		bool high = width == 4 && addr & 4;

		top.bus_valid = 1;
		top.bus_write = write;
		top.bus_addr = addr & ~uint64_t(7);
		top.bus_enable = width == 8 ? 3 : high ? 2 : 1;
		top.bus_wdata = high ? value << 32 : value;
		clock();
		until([this] { return top.bus_done; });
		top.bus_valid = 0;
		value = high ? top.bus_rdata >> 32 : top.bus_rdata;
		return width == 8 ? value : uint32_t(value);
	}

	// packet lets a packet arrive. Its numbers are those of PACKET (sim.go).
	void packet(const uint64_t *v)
	{
		top.pkt_element = v[0];
		top.pkt_at = v[1];
		top.pkt_bytes = v[2];
		top.pkt_flags = v[3];
		top.pkt_feedback = v[3] >> 8 & 1;
		top.pkt_ce = v[3] >> 9 & 1;
		top.pkt_syndrome = v[3] >> 16;
		top.pkt_token = v[4];
		top.pkt_t1 = v[5] & mask48;
		top.pkt_echo_t1 = v[6] & mask48;
		top.pkt_echo_t2 = v[7] & mask48;
		top.pkt_credit = v[8];
		top.pkt_credit_seq = v[8] >> 32;
		top.pkt_valid = 1;
		clock();
		until([this] { return top.pkt_done; });
		top.pkt_valid = 0;
	}

	void set_clock(uint64_t now, uint64_t step)
	{
		top.now_value = now;
		top.now_step = step;
		top.now_set = 1;
		clock();
		top.now_set = 0;
	}
};

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
		if (wall) {
			timespec t;
			clock_gettime(CLOCK_MONOTONIC, &t);
			card.set_clock(uint64_t(t.tv_sec) * 1000000000 + t.tv_nsec, 0);
		}
		switch (op) {
		case R32: case R64: case W32: case W64:
			return access(op, body, n);
		case CLOCK:
			if (n != 16 || number(body + 8) > 0xffff)
				return refuse(op, "the clock needs a time and the nanoseconds of a cycle, at most 65535");
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

// refuse_busy answers a second client. Its first message need not be read for that.
void refuse_busy(Card &card, int fd)
{
	Session second(card, fd, false);
	char first[8];
	timeval limit{1, 0};

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	if (recv(fd, first, sizeof(first), MSG_WAITALL) == sizeof(first)) {
		second.hello(BUSY);
		second.send();
	}
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
		if (poll(fds, 3, -1) < 0)
			die("poll");
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
