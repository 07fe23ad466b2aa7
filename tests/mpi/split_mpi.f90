! MPI_Comm_split_type of Fortran with the types of MPI 4, on nodes of two ranks: who is where says the simulated machine.
program split_mpi
   use mpi
   implicit none
   ! MPI_COMM_TYPE_HW_GUIDED and MPI_COMM_TYPE_HW_UNGUIDED as mpi.h of Intel MPI 2021.18 has them; its mpif.h has none.
   integer, parameter :: guided = 2, unguided = 3
   integer :: rank, ranks, ierror, node, core, checks

   call MPI_INIT(ierror)
   call MPI_COMM_RANK(MPI_COMM_WORLD, rank, ierror)
   call MPI_COMM_SIZE(MPI_COMM_WORLD, ranks, ierror)
   checks = 0
   call splits(MPI_COMM_TYPE_SHARED, ' ', 2)
   call splits(guided, 'hwloc://Package', 2)
   call splits(guided, 'numanode', 2)
   call splits(guided, 'core', 1)
   ! From all to nodes, to cores, to nothing.
   call MPI_COMM_SPLIT_TYPE(MPI_COMM_WORLD, unguided, 0, MPI_INFO_NULL, node, ierror)
   call is_of(node, 2)
   call MPI_COMM_SPLIT_TYPE(node, unguided, 0, MPI_INFO_NULL, core, ierror)
   call is_of(core, 1)
   call MPI_COMM_SPLIT_TYPE(core, unguided, 0, MPI_INFO_NULL, node, ierror)
   if (node /= MPI_COMM_NULL) call MPI_ABORT(MPI_COMM_WORLD, 1, ierror)
   if (rank == 0) print '(a,i0,a,i0,a)', 'split_mpi: ranks=', ranks, ' checks=', checks, ' ok'
   call MPI_FINALIZE(ierror)
contains
   subroutine splits(type, name, expected)
      integer, intent(in) :: type, expected
      character(*), intent(in) :: name
      integer :: info, part
      info = MPI_INFO_NULL
      if (name /= ' ') then
         call MPI_INFO_CREATE(info, ierror)
         call MPI_INFO_SET(info, 'mpi_hw_resource_type', name, ierror)
      end if
      call MPI_COMM_SPLIT_TYPE(MPI_COMM_WORLD, type, 0, info, part, ierror)
      call is_of(part, expected)
      if (name /= ' ') call MPI_INFO_FREE(info, ierror)
   end subroutine
   subroutine is_of(part, expected)
      integer, intent(in) :: part, expected
      integer :: size, me, wanted
      call MPI_COMM_SIZE(part, size, ierror)
      call MPI_COMM_RANK(part, me, ierror)
      wanted = 0
      if (expected == 2) wanted = mod(rank, 2)
      checks = checks + 1
      if (size /= expected .or. me /= wanted) then
         print '(a,4(1x,i0))', 'split_mpi: rank, size, place, check:', rank, size, me, checks
         call MPI_ABORT(MPI_COMM_WORLD, 1, ierror)
      end if
   end subroutine
end program
