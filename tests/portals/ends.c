/* Ways to begin and to end: HOW, and the rank that does it. Nothing is missing when a rank with exit code 0 has left before PtlInit, has called
 * _exit, or has become another program (exec) after PtlFini. */
#include "must.h"
#include <portals4.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int number(const char *first, const char *second)
{
	const char *text = getenv(first) ? getenv(first) : getenv(second);
	MUST(text);
	return atoi(text);
}

int main(int argc, char **argv)
{
	ptl_handle_ni_t ni;
	const unsigned options = PTL_NI_MATCHING | PTL_NI_PHYSICAL;
	MUST(argc == 3);
	const int it = number("NARROWS_RANK", "PMI_RANK") == atoi(argv[2]);
#define NOW(how) (it && !strcmp(argv[1], how))
	if (NOW("early call")) {
		MUST(PtlNIInit(PTL_IFACE_DEFAULT, options, PTL_PID_ANY, NULL, NULL, &ni) == PTL_NO_INIT);
		return 0;
	}
	if (NOW("early exit"))
		return 0;
	if (NOW("early failure"))
		return 3;
	MUST(PtlInit() == PTL_OK);
	MUST(PtlNIInit(PTL_IFACE_DEFAULT, options, PTL_PID_ANY, NULL, NULL, &ni) == PTL_OK);
	if (NOW("_exit"))
		_exit(0);
	if (NOW("failing _exit"))
		_exit(3);
	if (NOW("exec"))
		execl("/bin/true", "true", (char *)NULL);
	MUST(PtlNIFini(ni) == PTL_OK);
	PtlFini();
	if (NOW("late exec"))
		execl("/bin/true", "true", (char *)NULL);
	if (NOW("late failing exec"))
		execl("/bin/false", "false", (char *)NULL);
	return 0;
}
