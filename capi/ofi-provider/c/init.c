/*
 * How libfabric finds us. The library that loads the provider is not the one that we were built with:
 * Open MPI 5 and MPICH bring their own. Its version, and the functions that allocate and free its
 * fi_info (which grew over time), are looked up in the very file that called us. Linking to one
 * libfabric would bind to its old interfaces instead.
 */
#define _GNU_SOURCE
#include "narrows_fi.h"

#include <dlfcn.h>
#include <stdio.h>

const struct nw_layer *nw_layer;

static uint32_t (*library_version)(void);
static struct fi_info *(*library_dupinfo)(const struct fi_info *info);
static void (*library_freeinfo)(struct fi_info *info);

static void no_cleanup(void)
{
	/* The simulator sees the process end by itself. */
}

struct fi_provider nw_provider = {
	.version = NW_VERSION,
	.name = NW_NAME,
	.getinfo = nw_getinfo,
	.fabric = nw_fabric_open,
	.cleanup = no_cleanup,
};

static void *find(void *library, const char *name)
{
	void *symbol = library ? dlsym(library, name) : NULL;
	return symbol ? symbol : dlsym(RTLD_DEFAULT, name);
}

struct fi_info *nw_allocinfo(void)
{
	return library_dupinfo(NULL);
}

void nw_freeinfo(struct fi_info *info)
{
	library_freeinfo(info);
}

/* fi_prov_ini jumps here (../src/lib.rs), so the return address is still that of libfabric. */
struct fi_provider *nw_prov_ini(const struct nw_layer *layer);
struct fi_provider *nw_prov_ini(const struct nw_layer *layer)
{
	Dl_info caller;
	void *library = NULL;
	if (dladdr(__builtin_return_address(0), &caller) && caller.dli_fname)
		library = dlopen(caller.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
	*(void **)&library_version = find(library, "fi_version");
	*(void **)&library_dupinfo = find(library, "fi_dupinfo");
	*(void **)&library_freeinfo = find(library, "fi_freeinfo");
	if (library)
		dlclose(library);
	if (!library_version || !library_dupinfo || !library_freeinfo) {
		fprintf(stderr, "narrows: the libfabric that loads the provider does not show fi_version, fi_dupinfo and "
				"fi_freeinfo; the provider is not used\n");
		return NULL;
	}
	nw_layer = layer;
	/* Any other number makes some MPI reject us: each asks for at least the one it was built with. */
	nw_provider.fi_version = library_version();
	return &nw_provider;
}
