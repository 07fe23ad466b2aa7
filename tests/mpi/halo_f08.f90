! A two-dimensional heat equation with a halo exchange, in the mpi_f08 module: derived types for the columns, Cartesian
! topology, non-blocking point-to-point, reductions. The result must not depend on the number of ranks: the grid is fixed
! and the sums are of integers.
program halo_f08
   use mpi_f08
   use, intrinsic :: iso_fortran_env, only: int64
   implicit none
   integer, parameter :: n = 128, steps = 20
   integer :: rank, ranks, dims(2), me(2), low(2), high(2), d, i, j, step
   integer :: left, right, down, up, ierror
   logical :: periods(2)
   integer(int64), allocatable :: u(:, :), v(:, :)
   integer(int64) :: sum_mine, sum_all, expected
   type(MPI_Comm) :: grid
   type(MPI_Datatype) :: row
   type(MPI_Request) :: requests(8)
   type(MPI_Status) :: statuses(8)
   double precision :: start, finish

   call MPI_Init(ierror)
   call MPI_Comm_size(MPI_COMM_WORLD, ranks)
   dims = 0
   periods = .true.
   call MPI_Dims_create(ranks, 2, dims)
   call MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, .false., grid)
   call MPI_Comm_rank(grid, rank)
   call MPI_Cart_coords(grid, rank, 2, me)
   do d = 1, 2
      low(d) = me(d)*n/dims(d) + 1
      high(d) = (me(d) + 1)*n/dims(d)
   end do
   allocate (u(low(1) - 1:high(1) + 1, low(2) - 1:high(2) + 1), v(low(1) - 1:high(1) + 1, low(2) - 1:high(2) + 1))
   do j = low(2), high(2)
      do i = low(1), high(1)
         u(i, j) = mod(int(i, int64)*7919 + int(j, int64)*104729, 1000003_int64)
      end do
   end do
   call MPI_Cart_shift(grid, 0, 1, left, right)
   call MPI_Cart_shift(grid, 1, 1, down, up)
   call MPI_Type_vector(high(2) - low(2) + 1, 1, high(1) - low(1) + 3, MPI_INTEGER8, row)
   call MPI_Type_commit(row)

   start = MPI_Wtime()
   do step = 1, steps
      call MPI_Irecv(u(low(1) - 1, low(2)), 1, row, left, 1, grid, requests(1))
      call MPI_Irecv(u(high(1) + 1, low(2)), 1, row, right, 2, grid, requests(2))
      call MPI_Irecv(u(low(1), low(2) - 1), high(1) - low(1) + 1, MPI_INTEGER8, down, 3, grid, requests(3))
      call MPI_Irecv(u(low(1), high(2) + 1), high(1) - low(1) + 1, MPI_INTEGER8, up, 4, grid, requests(4))
      call MPI_Isend(u(high(1), low(2)), 1, row, right, 1, grid, requests(5))
      call MPI_Isend(u(low(1), low(2)), 1, row, left, 2, grid, requests(6))
      call MPI_Isend(u(low(1), high(2)), high(1) - low(1) + 1, MPI_INTEGER8, up, 3, grid, requests(7))
      call MPI_Isend(u(low(1), low(2)), high(1) - low(1) + 1, MPI_INTEGER8, down, 4, grid, requests(8))
      call MPI_Waitall(8, requests, statuses)
      do j = low(2), high(2)
         do i = low(1), high(1)
            v(i, j) = mod(u(i - 1, j) + u(i + 1, j) + u(i, j - 1) + u(i, j + 1) + 3*u(i, j), 1000003_int64)
         end do
      end do
      u(low(1):high(1), low(2):high(2)) = v(low(1):high(1), low(2):high(2))
   end do
   finish = MPI_Wtime()
   if (finish < start) error stop "MPI_Wtime went back"

   sum_mine = 0
   do j = low(2), high(2)
      do i = low(1), high(1)
         sum_mine = mod(sum_mine + u(i, j)*(int(i, int64) + 1000*j), 1000000007_int64)
      end do
   end do
   call MPI_Allreduce(sum_mine, sum_all, 1, MPI_INTEGER8, MPI_SUM, grid)
   expected = serial()
   if (mod(sum_all, 1000000007_int64) /= expected) then
      print *, 'FAIL: rank', rank, 'sum', mod(sum_all, 1000000007_int64), 'expected', expected
      call MPI_Abort(MPI_COMM_WORLD, 1)
   end if
   if (rank == 0) print '(a,i0,a,i0,a)', 'halo_f08: ranks=', ranks, ' sum=', mod(sum_all, 1000000007_int64), ' ok'
   call MPI_Type_free(row)
   call MPI_Finalize()

contains

   ! The same computation without MPI.
   integer(int64) function serial()
      integer(int64), allocatable :: a(:, :), b(:, :)
      integer :: x, y, t
      allocate (a(n, n), b(n, n))
      do y = 1, n
         do x = 1, n
            a(x, y) = mod(int(x, int64)*7919 + int(y, int64)*104729, 1000003_int64)
         end do
      end do
      do t = 1, steps
         b = mod(cshift(a, 1, 1) + cshift(a, -1, 1) + cshift(a, 1, 2) + cshift(a, -1, 2) + 3*a, 1000003_int64)
         a = b
      end do
      serial = 0
      do y = 1, n
         do x = 1, n
            serial = mod(serial + a(x, y)*(int(x, int64) + 1000*y), 1000000007_int64)
         end do
      end do
   end function serial
end program halo_f08
