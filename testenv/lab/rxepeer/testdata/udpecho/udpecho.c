// SPDX-License-Identifier: Apache-2.0

// Sends every datagram to UDP port argv[1] back to its sender.
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

int main(int argc, char **argv)
{
	struct sockaddr_in6 me = {.sin6_family = AF_INET6}, from;
	static char buf[65536];
	int fd = socket(AF_INET6, SOCK_DGRAM, 0);

	if (argc != 2)
		return 2;
	me.sin6_port = htons(atoi(argv[1]));
	if (fd < 0 || bind(fd, (struct sockaddr *)&me, sizeof(me))) {
		perror("udpecho");
		return 1;
	}
	puts("listening");
	fflush(stdout);
	for (;;) {
		socklen_t len = sizeof(from);
		ssize_t n = recvfrom(fd, buf, sizeof(buf), 0, (struct sockaddr *)&from, &len);

		if (n < 0 || sendto(fd, buf, n, 0, (struct sockaddr *)&from, len) != n) {
			perror("udpecho");
			return 1;
		}
	}
}
