/*
 * The Portals 4 network programming interface, as Narrows implements it for programs that run on a
 * simulated machine. Names and semantics are those of "The Portals 4.3 Network Programming Interface",
 * SAND2022-8810, with the names of 4.0 to 4.2 that programs still use.
 *
 * Values follow the BXI family where there is a choice: invalid and empty handles are zero, so that a
 * zeroed structure is valid; handles have the size of a pointer and compare with ==; PTL_SIZE_MAX is
 * 2^48-1. Functions beyond the specification are marked as extensions; most of them are those of BXI.
 */
#ifndef PORTALS4_H
#define PORTALS4_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PTL_MAJOR 4
#define PTL_MINOR 3
#define PTL_MAJOR_VERSION PTL_MAJOR
#define PTL_MINOR_VERSION PTL_MINOR

/* ---- Base types (3.2) --------------------------------------------------------------------------- */

typedef uint64_t ptl_size_t;
#define PTL_SIZE_MAX ((ptl_size_t)0xffffffffffffULL)

typedef void *ptl_handle_any_t;
typedef ptl_handle_any_t ptl_handle_ni_t;
typedef ptl_handle_any_t ptl_handle_eq_t;
typedef ptl_handle_any_t ptl_handle_ct_t;
typedef ptl_handle_any_t ptl_handle_md_t;
typedef ptl_handle_any_t ptl_handle_le_t;
typedef ptl_handle_any_t ptl_handle_me_t;
#define PTL_INVALID_HANDLE ((ptl_handle_any_t)0)
#define PTL_EQ_NONE ((ptl_handle_eq_t)0)
#define PTL_CT_NONE ((ptl_handle_ct_t)0)

typedef uint32_t ptl_pt_index_t;
typedef ptl_pt_index_t ptl_index_t; /* extension */
typedef void *ptl_addr_t;           /* extension */
#define PTL_PT_ANY ((ptl_pt_index_t)-1)

typedef uint64_t ptl_match_bits_t;
typedef uint64_t ptl_hdr_data_t;

typedef long ptl_time_t; /* milliseconds of simulated time */
#define PTL_TIME_FOREVER ((ptl_time_t)-1)

typedef uint32_t ptl_interface_t;
#define PTL_IFACE_DEFAULT ((ptl_interface_t)0)

typedef uint32_t ptl_nid_t;
typedef uint32_t ptl_pid_t;
typedef uint32_t ptl_rank_t;
typedef uint32_t ptl_uid_t;
#define PTL_NID_ANY ((ptl_nid_t)0)
#define PTL_PID_ANY ((ptl_pid_t)0)
#define PTL_PID_MAX ((ptl_pid_t)4095)
#define PTL_RANK_ANY ((ptl_rank_t)0x7fffff)
#define PTL_UID_ANY ((ptl_uid_t)-1)

typedef union ptl_process {
	struct {
		ptl_nid_t nid;
		ptl_pid_t pid;
	} phys;
	ptl_rank_t rank;
} ptl_process_t;

/* ---- Return codes (3.3) ------------------------------------------------------------------------- */

#define PTL_OK 0
#define PTL_ARG_INVALID 32
#define PTL_CT_NONE_REACHED 33
#define PTL_EQ_DROPPED 34
#define PTL_EQ_EMPTY 35
#define PTL_FAIL 36
#define PTL_IGNORED 37
#define PTL_IN_USE 38
#define PTL_INTERRUPTED 39
#define PTL_LIST_TOO_LONG 40
#define PTL_NO_INIT 41
#define PTL_NO_SPACE 42
#define PTL_PID_IN_USE 43
#define PTL_PT_FULL 44
#define PTL_PT_EQ_NEEDED 45
#define PTL_PT_IN_USE 46
#define PTL_ABORTED 47
#define PTL_TRY_AGAIN 48

/* ---- Network interfaces (3.6) ------------------------------------------------------------------- */

#define PTL_NI_MATCHING (1u << 0)
#define PTL_NI_NO_MATCHING (1u << 1)
#define PTL_NI_LOGICAL (1u << 2)
#define PTL_NI_PHYSICAL (1u << 3)
#define PTL_NI_INIT_OPTIONS_MASK (PTL_NI_MATCHING | PTL_NI_NO_MATCHING | PTL_NI_LOGICAL | PTL_NI_PHYSICAL)

#define PTL_TARGET_BIND_INACCESSIBLE (1u << 0)
#define PTL_TOTAL_DATA_ORDERING (1u << 1)
#define PTL_COHERENT_ATOMICS (1u << 2)

typedef struct ptl_ni_limits {
	int max_entries;
	int max_unexpected_headers;
	int max_mds;
	int max_cts;
	int max_eqs;
	int max_pt_index;
	int max_iovecs;
	int max_list_size;
	int max_triggered_ops;
	ptl_size_t max_msg_size;
	ptl_size_t max_atomic_size;
	ptl_size_t max_fetch_atomic_size;
	ptl_size_t max_waw_ordered_size;
	ptl_size_t max_war_ordered_size;
	ptl_size_t max_volatile_size;
	unsigned int features;
} ptl_ni_limits_t;

/* Status registers (3.6.7). */
typedef enum { PTL_SR_DROP_COUNT = 0, PTL_SR_PERMISSION_VIOLATIONS = 1, PTL_SR_OPERATION_VIOLATIONS = 2 } ptl_sr_index_t;
typedef int ptl_sr_value_t;

/* Whether an operation worked (3.13.3). */
typedef uint32_t ptl_ni_fail_t;
#define PTL_NI_OK 0
#define PTL_NI_UNDELIVERABLE 1
#define PTL_NI_DROPPED 2
#define PTL_NI_PT_DISABLED 3
#define PTL_NI_PERM_VIOLATION 4
#define PTL_NI_OP_VIOLATION 5
#define PTL_NI_SEGV 6
#define PTL_NI_NO_MATCH 7

/* ---- Portal table entries (3.7) ----------------------------------------------------------------- */

#define PTL_PT_ONLY_USE_ONCE (1u << 0)
#define PTL_PT_FLOWCTRL (1u << 1)
#define PTL_PT_ONLY_TRUNCATE (1u << 2)
#define PTL_PT_ALLOC_DISABLED (1u << 3)
#define PTL_PT_ALLOC_OPTIONS_MASK ((1u << 4) - 1)

/* ---- Scatter-gather lists (3.11.2, 3.12.1): with PTL_IOVEC `start` is an array, `length` its length -- */

typedef struct ptl_iovec {
	void *iov_base;
	ptl_size_t iov_len;
} ptl_iovec_t;

#define PTL_IOVEC (1u << 20)

/* ---- Memory descriptors (3.11) ------------------------------------------------------------------ */

typedef struct ptl_md {
	void *start;
	ptl_size_t length;
	unsigned int options;
	ptl_handle_eq_t eq_handle;
	ptl_handle_ct_t ct_handle;
} ptl_md_t;

#define PTL_MD_EVENT_SUCCESS_DISABLE (1u << 1)
#define PTL_MD_EVENT_SEND_DISABLE (1u << 2)
#define PTL_MD_EVENT_CT_SEND (1u << 3)
#define PTL_MD_EVENT_CT_REPLY (1u << 4)
#define PTL_MD_EVENT_CT_ACK (1u << 5)
#define PTL_MD_EVENT_CT_BYTES (1u << 6)
#define PTL_MD_UNORDERED (1u << 7)
#define PTL_MD_VOLATILE (1u << 8)
#define PTL_MD_UNRELIABLE (1u << 9)
#define PTL_MD_OPTIONS_MASK (((1u << 10) - 2) | PTL_IOVEC)

/* ---- List entries and match list entries (3.12) ------------------------------------------------- */

typedef enum { PTL_PRIORITY_LIST = 0, PTL_OVERFLOW_LIST = 1 } ptl_list_t;
typedef enum { PTL_SEARCH_ONLY = 0, PTL_SEARCH_DELETE = 1 } ptl_search_op_t;

typedef struct ptl_me {
	void *start;
	ptl_size_t length;
	ptl_handle_ct_t ct_handle;
	ptl_uid_t uid;
	unsigned int options;
	ptl_process_t match_id;
	ptl_match_bits_t match_bits;
	ptl_match_bits_t ignore_bits;
	ptl_size_t min_free;
} ptl_me_t;
typedef ptl_me_t ptl_le_t; /* the members from match_id on are ignored */

#define PTL_LE_OP_PUT (1u << 0)
#define PTL_LE_OP_GET (1u << 1)
#define PTL_LE_USE_ONCE (1u << 2)
#define PTL_LE_ACK_DISABLE (1u << 3)
#define PTL_LE_UNEXPECTED_HDR_DISABLE (1u << 4)
#define PTL_LE_EVENT_COMM_DISABLE (1u << 6)
#define PTL_LE_EVENT_FLOWCTRL_DISABLE (1u << 7)
#define PTL_LE_EVENT_SUCCESS_DISABLE (1u << 8)
#define PTL_LE_EVENT_OVER_DISABLE (1u << 9)
#define PTL_LE_EVENT_LINK_DISABLE (1u << 10)
#define PTL_LE_EVENT_UNLINK_DISABLE (1u << 11)
#define PTL_LE_EVENT_CT_COMM (1u << 12)
#define PTL_LE_EVENT_CT_OVERFLOW (1u << 13)
#define PTL_LE_EVENT_CT_BYTES (1u << 14)
#define PTL_LE_IS_ACCESSIBLE (1u << 15)

#define PTL_ME_OP_PUT PTL_LE_OP_PUT
#define PTL_ME_OP_GET PTL_LE_OP_GET
#define PTL_ME_USE_ONCE PTL_LE_USE_ONCE
#define PTL_ME_ACK_DISABLE PTL_LE_ACK_DISABLE
#define PTL_ME_UNEXPECTED_HDR_DISABLE PTL_LE_UNEXPECTED_HDR_DISABLE
#define PTL_ME_EVENT_COMM_DISABLE PTL_LE_EVENT_COMM_DISABLE
#define PTL_ME_EVENT_FLOWCTRL_DISABLE PTL_LE_EVENT_FLOWCTRL_DISABLE
#define PTL_ME_EVENT_SUCCESS_DISABLE PTL_LE_EVENT_SUCCESS_DISABLE
#define PTL_ME_EVENT_OVER_DISABLE PTL_LE_EVENT_OVER_DISABLE
#define PTL_ME_EVENT_LINK_DISABLE PTL_LE_EVENT_LINK_DISABLE
#define PTL_ME_EVENT_UNLINK_DISABLE PTL_LE_EVENT_UNLINK_DISABLE
#define PTL_ME_EVENT_CT_COMM PTL_LE_EVENT_CT_COMM
#define PTL_ME_EVENT_CT_OVERFLOW PTL_LE_EVENT_CT_OVERFLOW
#define PTL_ME_EVENT_CT_BYTES PTL_LE_EVENT_CT_BYTES
#define PTL_ME_IS_ACCESSIBLE PTL_LE_IS_ACCESSIBLE
#define PTL_ME_MANAGE_LOCAL (1u << 16)
#define PTL_ME_NO_TRUNCATE (1u << 17)
#define PTL_ME_MAY_ALIGN (1u << 18)
#define PTL_ME_LOCAL_INC_UH_RLENGTH (1u << 19)
#define PTL_LE_APPEND_OPTIONS_MASK ((((1u << 16) - 1) & ~(1u << 5)) | PTL_IOVEC)
#define PTL_ME_APPEND_OPTIONS_MASK (PTL_LE_APPEND_OPTIONS_MASK | 15u << 16)

/* ---- Counting events (3.14) --------------------------------------------------------------------- */

typedef struct ptl_ct_event {
	ptl_size_t success;
	ptl_size_t failure;
} ptl_ct_event_t;

/* ---- Full events (3.13) ------------------------------------------------------------------------- */

typedef enum {
	PTL_EVENT_GET = 0,
	PTL_EVENT_GET_OVERFLOW = 1,
	PTL_EVENT_PUT = 2,
	PTL_EVENT_PUT_OVERFLOW = 3,
	PTL_EVENT_ATOMIC = 4,
	PTL_EVENT_ATOMIC_OVERFLOW = 5,
	PTL_EVENT_FETCH_ATOMIC = 6,
	PTL_EVENT_FETCH_ATOMIC_OVERFLOW = 7,
	PTL_EVENT_REPLY = 8,
	PTL_EVENT_SEND = 9,
	PTL_EVENT_ACK = 10,
	PTL_EVENT_PT_DISABLED = 11,
	PTL_EVENT_AUTO_UNLINK = 12,
	PTL_EVENT_AUTO_FREE = 13,
	PTL_EVENT_SEARCH = 14,
	PTL_EVENT_LINK = 15
} ptl_event_kind_t;

typedef enum {
	PTL_MIN = 0,
	PTL_MAX = 1,
	PTL_SUM = 2,
	PTL_PROD = 3,
	PTL_LOR = 4,
	PTL_LAND = 5,
	PTL_BOR = 6,
	PTL_BAND = 7,
	PTL_LXOR = 8,
	PTL_BXOR = 9,
	PTL_SWAP = 10,
	PTL_CSWAP = 11,
	PTL_CSWAP_NE = 12,
	PTL_CSWAP_LE = 13,
	PTL_CSWAP_LT = 14,
	PTL_CSWAP_GE = 15,
	PTL_CSWAP_GT = 16,
	PTL_MSWAP = 17
} ptl_op_t;

typedef enum {
	PTL_INT8_T = 0,
	PTL_UINT8_T = 1,
	PTL_INT16_T = 2,
	PTL_UINT16_T = 3,
	PTL_INT32_T = 4,
	PTL_UINT32_T = 5,
	PTL_FLOAT = 6,
	PTL_INT64_T = 7,
	PTL_UINT64_T = 8,
	PTL_DOUBLE = 9,
	PTL_FLOAT_COMPLEX = 10,
	PTL_DOUBLE_COMPLEX = 11,
	PTL_LONG_DOUBLE = 12,
	PTL_LONG_DOUBLE_COMPLEX = 13
} ptl_datatype_t;

typedef struct ptl_event {
	void *start;
	void *user_ptr;
	ptl_hdr_data_t hdr_data;
	ptl_match_bits_t match_bits;
	ptl_size_t rlength;
	ptl_size_t mlength;
	ptl_size_t remote_offset;
	ptl_process_t initiator;
	ptl_uid_t uid;
	ptl_pt_index_t pt_index;
	ptl_event_kind_t type;
	ptl_list_t ptl_list;
	ptl_ni_fail_t ni_fail_type;
	ptl_op_t atomic_operation;
	ptl_datatype_t atomic_type;
} ptl_event_t;

/* ---- Data movement (3.15) ----------------------------------------------------------------------- */

typedef enum { PTL_NO_ACK_REQ = 0, PTL_ACK_REQ = 1, PTL_CT_ACK_REQ = 2, PTL_OC_ACK_REQ = 3 } ptl_ack_req_t;

/* ---- Functions ---------------------------------------------------------------------------------- */

int PtlInit(void);
void PtlFini(void);
void PtlAbort(void);

int PtlNIInit(ptl_interface_t iface, unsigned int options, ptl_pid_t pid, const ptl_ni_limits_t *desired,
	      ptl_ni_limits_t *actual, ptl_handle_ni_t *ni_handle);
int PtlNIFini(ptl_handle_ni_t ni_handle);
int PtlNIHandle(ptl_handle_any_t handle, ptl_handle_ni_t *ni_handle);
int PtlNIStatus(ptl_handle_ni_t ni_handle, ptl_sr_index_t status_register, ptl_sr_value_t *status);
int PtlSetMap(ptl_handle_ni_t ni_handle, ptl_size_t map_size, const ptl_process_t *mapping);
int PtlGetMap(ptl_handle_ni_t ni_handle, ptl_size_t map_size, ptl_process_t *mapping, ptl_size_t *actual_map_size);

int PtlGetUid(ptl_handle_ni_t ni_handle, ptl_uid_t *uid);
int PtlGetId(ptl_handle_ni_t ni_handle, ptl_process_t *id);
int PtlGetPhysId(ptl_handle_ni_t ni_handle, ptl_process_t *id);

int PtlPTAlloc(ptl_handle_ni_t ni_handle, unsigned int options, ptl_handle_eq_t eq_handle,
	       ptl_pt_index_t pt_index_req, ptl_pt_index_t *pt_index);
int PtlPTFree(ptl_handle_ni_t ni_handle, ptl_pt_index_t pt_index);
int PtlPTEnable(ptl_handle_ni_t ni_handle, ptl_pt_index_t pt_index);
int PtlPTDisable(ptl_handle_ni_t ni_handle, ptl_pt_index_t pt_index);

int PtlMDBind(ptl_handle_ni_t ni_handle, const ptl_md_t *md, ptl_handle_md_t *md_handle);
int PtlMDRelease(ptl_handle_md_t md_handle);

int PtlLEAppend(ptl_handle_ni_t ni_handle, ptl_pt_index_t pt_index, const ptl_le_t *le, ptl_list_t ptl_list,
		void *user_ptr, ptl_handle_le_t *le_handle);
int PtlLEUnlink(ptl_handle_le_t le_handle);
int PtlLESearch(ptl_handle_ni_t ni_handle, ptl_pt_index_t pt_index, const ptl_le_t *le,
		ptl_search_op_t ptl_search_op, void *user_ptr);
int PtlMEAppend(ptl_handle_ni_t ni_handle, ptl_pt_index_t pt_index, const ptl_me_t *me, ptl_list_t ptl_list,
		void *user_ptr, ptl_handle_me_t *me_handle);
int PtlMEUnlink(ptl_handle_me_t me_handle);
int PtlMESearch(ptl_handle_ni_t ni_handle, ptl_pt_index_t pt_index, const ptl_me_t *me,
		ptl_search_op_t ptl_search_op, void *user_ptr);

int PtlEQAlloc(ptl_handle_ni_t ni_handle, ptl_size_t count, ptl_handle_eq_t *eq_handle);
int PtlEQFree(ptl_handle_eq_t eq_handle);
int PtlEQGet(ptl_handle_eq_t eq_handle, ptl_event_t *event);
int PtlEQWait(ptl_handle_eq_t eq_handle, ptl_event_t *event);
int PtlEQPoll(const ptl_handle_eq_t *eq_handles, unsigned int size, ptl_time_t timeout, ptl_event_t *event,
	      unsigned int *which);

int PtlCTAlloc(ptl_handle_ni_t ni_handle, ptl_handle_ct_t *ct_handle);
int PtlCTFree(ptl_handle_ct_t ct_handle);
int PtlCTCancelTriggered(ptl_handle_ct_t ct_handle);
int PtlCTGet(ptl_handle_ct_t ct_handle, ptl_ct_event_t *event);
int PtlCTWait(ptl_handle_ct_t ct_handle, ptl_size_t test, ptl_ct_event_t *event);
int PtlCTPoll(const ptl_handle_ct_t *ct_handles, const ptl_size_t *tests, unsigned int size, ptl_time_t timeout,
	      ptl_ct_event_t *event, unsigned int *which);
int PtlCTSet(ptl_handle_ct_t ct_handle, ptl_ct_event_t new_ct);
int PtlCTInc(ptl_handle_ct_t ct_handle, ptl_ct_event_t increment);

int PtlPut(ptl_handle_md_t md_handle, ptl_size_t local_offset, ptl_size_t length, ptl_ack_req_t ack_req,
	   ptl_process_t target_id, ptl_pt_index_t pt_index, ptl_match_bits_t match_bits,
	   ptl_size_t remote_offset, void *user_ptr, ptl_hdr_data_t hdr_data);
int PtlGet(ptl_handle_md_t md_handle, ptl_size_t local_offset, ptl_size_t length, ptl_process_t target_id,
	   ptl_pt_index_t pt_index, ptl_match_bits_t match_bits, ptl_size_t remote_offset, void *user_ptr);

int PtlAtomic(ptl_handle_md_t md_handle, ptl_size_t local_offset, ptl_size_t length, ptl_ack_req_t ack_req,
	      ptl_process_t target_id, ptl_pt_index_t pt_index, ptl_match_bits_t match_bits, ptl_size_t remote_offset,
	      void *user_ptr, ptl_hdr_data_t hdr_data, ptl_op_t operation, ptl_datatype_t datatype);
int PtlFetchAtomic(ptl_handle_md_t get_md_handle, ptl_size_t local_get_offset, ptl_handle_md_t put_md_handle,
		   ptl_size_t local_put_offset, ptl_size_t length, ptl_process_t target_id, ptl_pt_index_t pt_index,
		   ptl_match_bits_t match_bits, ptl_size_t remote_offset, void *user_ptr, ptl_hdr_data_t hdr_data,
		   ptl_op_t operation, ptl_datatype_t datatype);
int PtlSwap(ptl_handle_md_t get_md_handle, ptl_size_t local_get_offset, ptl_handle_md_t put_md_handle,
	    ptl_size_t local_put_offset, ptl_size_t length, ptl_process_t target_id, ptl_pt_index_t pt_index,
	    ptl_match_bits_t match_bits, ptl_size_t remote_offset, void *user_ptr, ptl_hdr_data_t hdr_data,
	    const void *operand, ptl_op_t operation, ptl_datatype_t datatype);
int PtlAtomicSync(void);

/* BXI: as the functions without NB, but PTL_TRY_AGAIN instead of waiting for room in the NIC. Here there is always room. */
__typeof__(PtlMDBind) PtlMDBindNB;
__typeof__(PtlLEAppend) PtlLEAppendNB;
__typeof__(PtlLESearch) PtlLESearchNB;
__typeof__(PtlMEAppend) PtlMEAppendNB;
__typeof__(PtlMESearch) PtlMESearchNB;
__typeof__(PtlPut) PtlPutNB;
__typeof__(PtlGet) PtlGetNB;
__typeof__(PtlAtomic) PtlAtomicNB;
__typeof__(PtlFetchAtomic) PtlFetchAtomicNB;
__typeof__(PtlSwap) PtlSwapNB;

int PtlTriggeredPut(ptl_handle_md_t md_handle, ptl_size_t local_offset, ptl_size_t length, ptl_ack_req_t ack_req,
		    ptl_process_t target_id, ptl_pt_index_t pt_index, ptl_match_bits_t match_bits,
		    ptl_size_t remote_offset, void *user_ptr, ptl_hdr_data_t hdr_data,
		    ptl_handle_ct_t trig_ct_handle, ptl_size_t threshold);
int PtlTriggeredGet(ptl_handle_md_t md_handle, ptl_size_t local_offset, ptl_size_t length, ptl_process_t target_id,
		    ptl_pt_index_t pt_index, ptl_match_bits_t match_bits, ptl_size_t remote_offset, void *user_ptr,
		    ptl_handle_ct_t trig_ct_handle, ptl_size_t threshold);
int PtlTriggeredAtomic(ptl_handle_md_t md_handle, ptl_size_t local_offset, ptl_size_t length, ptl_ack_req_t ack_req,
		       ptl_process_t target_id, ptl_pt_index_t pt_index, ptl_match_bits_t match_bits,
		       ptl_size_t remote_offset, void *user_ptr, ptl_hdr_data_t hdr_data, ptl_op_t operation,
		       ptl_datatype_t datatype, ptl_handle_ct_t trig_ct_handle, ptl_size_t threshold);
int PtlTriggeredFetchAtomic(ptl_handle_md_t get_md_handle, ptl_size_t local_get_offset, ptl_handle_md_t put_md_handle,
			    ptl_size_t local_put_offset, ptl_size_t length, ptl_process_t target_id,
			    ptl_pt_index_t pt_index, ptl_match_bits_t match_bits, ptl_size_t remote_offset,
			    void *user_ptr, ptl_hdr_data_t hdr_data, ptl_op_t operation, ptl_datatype_t datatype,
			    ptl_handle_ct_t trig_ct_handle, ptl_size_t threshold);
int PtlTriggeredSwap(ptl_handle_md_t get_md_handle, ptl_size_t local_get_offset, ptl_handle_md_t put_md_handle,
		     ptl_size_t local_put_offset, ptl_size_t length, ptl_process_t target_id, ptl_pt_index_t pt_index,
		     ptl_match_bits_t match_bits, ptl_size_t remote_offset, void *user_ptr, ptl_hdr_data_t hdr_data,
		     const void *operand, ptl_op_t operation, ptl_datatype_t datatype, ptl_handle_ct_t trig_ct_handle,
		     ptl_size_t threshold);
int PtlTriggeredCTInc(ptl_handle_ct_t ct_handle, ptl_ct_event_t increment, ptl_handle_ct_t trig_ct_handle,
		      ptl_size_t threshold);
int PtlTriggeredCTSet(ptl_handle_ct_t ct_handle, ptl_ct_event_t new_ct, ptl_handle_ct_t trig_ct_handle,
		      ptl_size_t threshold);

int PtlStartBundle(ptl_handle_ni_t ni_handle);
int PtlEndBundle(ptl_handle_ni_t ni_handle);
int PtlHandleIsEqual(ptl_handle_any_t handle1, ptl_handle_any_t handle2);

/* ---- Extensions --------------------------------------------------------------------------------- */

/* List operations that wait for a counting event. An entry that is in use when its unlink is due stays. */
int PtlTriggeredMEAppend(ptl_handle_ni_t ni_handle, ptl_pt_index_t pt_index, const ptl_me_t *me, ptl_list_t ptl_list,
			 void *user_ptr, ptl_handle_me_t *me_handle, ptl_handle_ct_t trig_ct_handle,
			 ptl_size_t threshold);
int PtlTriggeredMEUnlink(ptl_handle_me_t me_handle, ptl_handle_ct_t trig_ct_handle, ptl_size_t threshold);
int PtlTriggeredLEAppend(ptl_handle_ni_t ni_handle, ptl_pt_index_t pt_index, const ptl_le_t *le, ptl_list_t ptl_list,
			 void *user_ptr, ptl_handle_le_t *le_handle, ptl_handle_ct_t trig_ct_handle,
			 ptl_size_t threshold);
int PtlTriggeredLEUnlink(ptl_handle_le_t le_handle, ptl_handle_ct_t trig_ct_handle, ptl_size_t threshold);

/* As PtlAtomicSync, for one network interface. */
int PtlNIAtomicSync(ptl_handle_ni_t ni_handle);
/* The number of the NIC; no capability is defined. */
int PtlGetHwid(ptl_handle_ni_t ni_handle, uint64_t *hwid, uint64_t *capabilities);
/* As PtlEQAlloc; the callback is never called. */
int PtlEQAllocAsync(ptl_handle_ni_t ni_handle, ptl_size_t count, ptl_handle_eq_t *eq_handle,
		    void (*callback)(void *argument, ptl_handle_eq_t eq_handle), void *argument, int hint);

enum ptl_str_type { PTL_STR_ERROR = 0, PTL_STR_EVENT = 1, PTL_STR_FAIL_TYPE = 2 };
/* The name of a return code, an event or a failure. */
const char *PtlToStr(int code, enum ptl_str_type type);
/* Writes an event as one line; the length of the line. */
#define PTL_EV_STR_SIZE 256
int PtlEvToStr(unsigned int flags, const ptl_event_t *event, char *text);

#ifdef __cplusplus
}
#endif

#endif
