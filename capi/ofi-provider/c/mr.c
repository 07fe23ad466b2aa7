/*
 * Memory regions: the program chooses the key, any 64 bits that no other open region of the domain has,
 * and peers name a place in a region by its offset (mr_mode 0).
 */
#include "narrows_fi.h"

static int mr_close(struct fid *fid)
{
	struct nw_mr *mr = (struct nw_mr *)fid;
	int code = nw_layer->mr_close(mr->domain->id, mr->fid.key);
	if (code)
		return code;
	nw_down(&mr->domain->children);
	free(mr);
	return 0;
}

/* Every endpoint of the domain reaches it, enabled or not: nothing is left to do. */
static int mr_bind(struct fid *fid, struct fid *other, uint64_t flags)
{
	(void)fid;
	return other->fclass == FI_CLASS_EP && !flags ? 0 : -FI_ENOSYS;
}

static int mr_control(struct fid *fid, int command, void *arg)
{
	(void)fid, (void)arg;
	return command == FI_ENABLE ? 0 : -FI_ENOSYS;
}

static struct fi_ops mr_fid_ops = {
	.size = sizeof(struct fi_ops),
	.close = mr_close,
	.bind = mr_bind,
	.control = mr_control,
	.ops_open = nw_no_ops_open,
	.tostr = nw_no_tostr,
	.ops_set = nw_no_ops_set,
};

static int mr_regv(struct fid *fid, const struct iovec *iov, size_t count, uint64_t access, uint64_t offset, uint64_t key,
		   uint64_t flags, struct fid_mr **out, void *context)
{
	if (fid->fclass != FI_CLASS_DOMAIN || count != 1 || offset)
		return -FI_EINVAL;
	if (flags)
		return -FI_EBADFLAGS;
	struct nw_mr *mr = calloc(1, sizeof(*mr));
	if (!mr)
		return -FI_ENOMEM;
	mr->domain = (struct nw_domain *)fid;
	int code = nw_layer->mr_open(mr->domain->id, key, iov->iov_base, iov->iov_len, access);
	if (code) {
		free(mr);
		return code;
	}
	mr->fid.fid.fclass = FI_CLASS_MR;
	mr->fid.fid.context = context;
	mr->fid.fid.ops = &mr_fid_ops;
	mr->fid.key = key;
	nw_up(&mr->domain->children);
	*out = &mr->fid;
	return 0;
}

static int mr_reg(struct fid *fid, const void *buf, size_t len, uint64_t access, uint64_t offset, uint64_t key, uint64_t flags,
		  struct fid_mr **mr, void *context)
{
	struct iovec iov = { (void *)buf, len };
	return mr_regv(fid, &iov, 1, access, offset, key, flags, mr, context);
}

static int mr_regattr(struct fid *fid, const struct fi_mr_attr *attr, uint64_t flags, struct fid_mr **mr)
{
	return mr_regv(fid, attr->mr_iov, attr->iov_count, attr->access, attr->offset, attr->requested_key, flags, mr,
		       attr->context);
}

struct fi_ops_mr nw_mr_ops = {
	.size = sizeof(struct fi_ops_mr),
	.reg = mr_reg,
	.regv = mr_regv,
	.regattr = mr_regattr,
};
