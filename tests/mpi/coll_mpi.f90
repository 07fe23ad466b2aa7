! Collectives and point-to-point through the older interface "use mpi": in place, user operation, wildcard receives.
program coll_mpi
   use mpi
   implicit none
   integer :: rank, ranks, ierror, i, op, total, length, status(MPI_STATUS_SIZE), peer, got
   integer, allocatable :: all(:), blocks(:)
   double precision :: mine(100), sums(100)
   character(len=MPI_MAX_PROCESSOR_NAME) :: name
   external :: keep_larger_magnitude

   call MPI_INIT(ierror)
   call MPI_COMM_RANK(MPI_COMM_WORLD, rank, ierror)
   call MPI_COMM_SIZE(MPI_COMM_WORLD, ranks, ierror)
   call MPI_GET_PROCESSOR_NAME(name, length, ierror)
   call check(length > 0, 'MPI_GET_PROCESSOR_NAME')

   mine = [(dble(rank + i), i=1, 100)]
   call MPI_ALLREDUCE(mine, sums, 100, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, ierror)
   call check(all_equal(sums, [(dble(ranks)*(ranks - 1)/2 + dble(ranks)*i, i=1, 100)]), 'MPI_ALLREDUCE')
   sums = mine
   call MPI_ALLREDUCE(MPI_IN_PLACE, sums, 100, MPI_DOUBLE_PRECISION, MPI_MAX, MPI_COMM_WORLD, ierror)
   call check(all_equal(sums, [(dble(ranks - 1 + i), i=1, 100)]), 'MPI_ALLREDUCE in place')

   allocate (all(ranks), blocks(2*ranks))
   call MPI_ALLGATHER(rank*3, 1, MPI_INTEGER, all, 1, MPI_INTEGER, MPI_COMM_WORLD, ierror)
   call check(sum(abs(all - [(3*i, i=0, ranks - 1)])) == 0, 'MPI_ALLGATHER')
   blocks = 0
   if (rank == ranks - 1) blocks = [(i, i=1, 2*ranks)]
   call MPI_BCAST(blocks, 2*ranks, MPI_INTEGER, ranks - 1, MPI_COMM_WORLD, ierror)
   call check(sum(blocks) == ranks*(2*ranks + 1), 'MPI_BCAST')

   call MPI_OP_CREATE(keep_larger_magnitude, .true., op, ierror)
   call MPI_REDUCE(merge(-rank, rank, mod(rank, 2) == 1), total, 1, MPI_INTEGER, op, 0, MPI_COMM_WORLD, ierror)
   if (rank == 0) call check(abs(total) == ranks - 1, 'MPI_REDUCE with a Fortran operation')
   call MPI_OP_FREE(op, ierror)

   if (rank == 0) then
      total = 0
      do i = 1, ranks - 1
         call MPI_RECV(got, 1, MPI_INTEGER, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, status, ierror)
         peer = status(MPI_SOURCE)
         call check(got == peer*11 .and. status(MPI_TAG) == mod(peer, 4), 'MPI_RECV')
         total = total + peer
      end do
      call check(total == ranks*(ranks - 1)/2, 'one message of each rank')
   else
      call MPI_SEND(rank*11, 1, MPI_INTEGER, 0, mod(rank, 4), MPI_COMM_WORLD, ierror)
   end if
   call MPI_BARRIER(MPI_COMM_WORLD, ierror)
   if (rank == 0) print '(a,i0,a)', 'coll_mpi: ranks=', ranks, ' ok'
   call MPI_FINALIZE(ierror)

contains

   logical function all_equal(a, b)
      double precision, intent(in) :: a(:), b(:)
      all_equal = maxval(abs(a - b)) == 0
   end function all_equal

   subroutine check(condition, what)
      logical, intent(in) :: condition
      character(len=*), intent(in) :: what
      integer :: code
      if (.not. condition) then
         print '(a,i0,2a)', 'FAIL: rank ', rank, ': ', what
         call MPI_ABORT(MPI_COMM_WORLD, 1, code)
      end if
   end subroutine check
end program coll_mpi

subroutine keep_larger_magnitude(in, inout, length, type)
   implicit none
   integer :: length, type, in(length), inout(length), i
   do i = 1, length
      if (abs(in(i)) > abs(inout(i))) inout(i) = in(i)
   end do
end subroutine keep_larger_magnitude
