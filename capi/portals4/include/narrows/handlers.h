/*
 * Handlers on the NIC for a list entry: an extension of Portals 4. Put NARROWS_CONTEXT(n) into the options of an entry
 * for PtlMEAppend or PtlLEAppend. A put that finds the entry in a priority list then goes through the handlers of rule
 * n of nic.spin.rules, counted from 1, if that rule has the word `entry` and its other conditions hold:
 *
 *     narrows run --set 'nic.spin.rules=["reduce.elf entry", "copy_to_host entry size=4KiB.."]' ...
 *
 * The entry's memory from the offset of the put on is the window of the handlers. Without such a rule, in an overflow
 * list and on NICs without handlers the put goes to memory as usual. docs/spin.md has the rest.
 */
#ifndef NARROWS_HANDLERS_H
#define NARROWS_HANDLERS_H

/* Most rules that entries can name. */
#define NARROWS_CONTEXT_MAX 64

#define NARROWS_CONTEXT(n) ((unsigned int)(n) << 21)

#endif
